set encoding utf8
$d0 << EOD
21.4175 1.75277
EOD
$d1 << EOD
18.4431 1.77812
EOD
$d2 << EOD
17.4516 1.78713
EOD
$d3 << EOD
17.4516 1.78148
EOD
$d4 << EOD
17.4516 1.81497
EOD
$d5 << EOD
17.4516 1.83376
EOD
$d6 << EOD
100.363 1.75726
EOD
$d7 << EOD
100.363 1.74278
EOD
$d8 << EOD
17.4516 1.78148
18.4431 1.77812
21.4175 1.75277
100.363 1.74278
EOD
$d9 << EOD
17.4516 1.76267
100.363 1.76267
EOD
$d10 << EOD
0.002 1.80917 1.79006 1.82828
0.004 1.76267 1.71714 1.80821
EOD
$d11 << EOD
0.002 1.78358 1.71211 1.85504
0.004 1.75277 1.58455 1.92098
EOD
$d12 << EOD
0.002 1.79105 1.75936 1.82274
0.004 1.77812 1.76701 1.78923
EOD
$d13 << EOD
0.002 1.78713 1.76946 1.80481
0.004 1.79126 1.76293 1.81959
EOD
$d14 << EOD
0.002 1.78148 1.77156 1.79139
0.004 1.78834 1.72802 1.84865
EOD
$d15 << EOD
0.002 1.817 1.79316 1.84084
0.004 1.81497 1.77424 1.8557
EOD
$d16 << EOD
0.002 1.84078 1.82896 1.8526
0.004 1.83376 1.81132 1.8562
EOD
$d17 << EOD
0.002 1.79504 1.77691 1.81318
0.004 1.75726 1.68043 1.83409
EOD
$d18 << EOD
0.002 1.79718 1.78709 1.80727
0.004 1.74278 1.67118 1.81437
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'characters' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1120,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1120,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss against bits, at the best rate' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 5 samplen 1 width -1
set bmargin 9

plot $d0 using 1:2 with points pt 7 lc '#D55E00' title 'int8, soft4, soft4, sqrt04' noenhanced, $d1 using 1:2 with points pt 7 lc '#009E73' title 'int6, int3, soft4, sqrt04' noenhanced, $d2 using 1:2 with points pt 7 lc '#CC79A7' title 'int6, int3, soft4, sqrt03' noenhanced, $d3 using 1:2 with points pt 7 lc '#E69F00' title 'int6, soft3, soft4, sqrt03' noenhanced, $d4 using 1:2 with points pt 7 lc '#56B4E9' title 'int6, int3, soft3, sqrt04' noenhanced, $d5 using 1:2 with points pt 7 lc '#000000' title 'int5, int3, soft4, sqrt04' noenhanced, $d6 using 1:2 with points pt 7 lc '#8C8C00' title 'fp32, fp32, fp32, sqrt04' noenhanced, $d7 using 1:2 with points pt 4 lc '#0072B2' title 'fp32, fp32, soft4, fp32' noenhanced, $d8 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d9 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 5 samplen 1 width -1
set bmargin 9
set yrange [1.72:1.86]

plot $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32, fp32, fp32, fp32' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8, soft4, soft4, sqrt04' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int6, int3, soft4, sqrt04' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int6, int3, soft4, sqrt03' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int6, soft3, soft4, sqrt03' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int6, int3, soft3, sqrt04' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int5, int3, soft4, sqrt04' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'fp32, fp32, fp32, sqrt04' noenhanced, $d18 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'fp32, fp32, soft4, fp32' noenhanced
unset multiplot
set output
