set encoding utf8
$d0 << EOD
17.1146 96.025
EOD
$d1 << EOD
17.1146 97.375
EOD
$d2 << EOD
13.0123 95.75
EOD
$d3 << EOD
13.0123 96.8
EOD
$d4 << EOD
13.0123 96.85
EOD
$d5 << EOD
13.0123 96.85
17.1146 97.375
EOD
$d6 << EOD
13.0123 96.25
17.1146 96.25
EOD
$d7 << EOD
17.1146 0.205857
EOD
$d8 << EOD
17.1146 0.130823
EOD
$d9 << EOD
13.0123 0.200384
EOD
$d10 << EOD
13.0123 0.173964
EOD
$d11 << EOD
13.0123 0.163989
EOD
$d12 << EOD
13.0123 0.163989
17.1146 0.130823
EOD
$d13 << EOD
13.0123 0.18162
17.1146 0.18162
EOD
$d14 << EOD
0.05 91.8 73.376 110.224
0.1 95.225 82.2011 108.249
0.2 96.25 90.5322 101.968
0.4 90.025 -8.76574 188.816
EOD
$d15 << EOD
0.05 90.825 63.189 118.461
0.1 95.45 90.3675 100.532
0.2 96.025 73.4715 118.579
0.4 94.275 45.6738 142.876
EOD
$d16 << EOD
0.05 90.6 60.7404 120.46
0.1 95.575 93.9867 97.1633
0.2 97.375 91.3396 103.41
0.4 97 91.2822 102.718
EOD
$d17 << EOD
0.05 90.4 70.0701 110.73
0.1 94.725 91.8661 97.5839
0.2 95.75 84.9497 106.55
0.4 94.825 56.3887 133.261
EOD
$d18 << EOD
0.05 90.8 87.6234 93.9766
0.1 95.75 91.3028 100.197
0.2 96.8 84.7291 108.871
0.4 89.8 5.93905 173.661
EOD
$d19 << EOD
0.05 90.35 72.5613 108.139
0.1 94.95 78.4319 111.468
0.2 96.475 90.4396 102.51
0.4 96.85 93.6734 100.027
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'image' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy against bits' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'accuracy' noenhanced
set key bmargin center maxrows 4 samplen 2 width 1
set bmargin 8

plot $d0 using 1:2 with points pt 7 lc '#D55E00' title 'int8, sr, soft4' noenhanced, $d1 using 1:2 with points pt 7 lc '#009E73' title 'int8, qr, soft4' noenhanced, $d2 using 1:2 with points pt 7 lc '#CC79A7' title 'int6, sr, soft3' noenhanced, $d3 using 1:2 with points pt 7 lc '#E69F00' title 'int6, qr, soft3' noenhanced, $d4 using 1:2 with points pt 7 lc '#56B4E9' title 'int5, qr, soft4' noenhanced, $d5 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d6 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'final training loss' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'final_loss' noenhanced
set key bmargin center maxrows 4 samplen 2 width 1
set bmargin 8

plot $d7 using 1:2 with points pt 7 lc '#D55E00' title 'int8, sr, soft4' noenhanced, $d8 using 1:2 with points pt 7 lc '#009E73' title 'int8, qr, soft4' noenhanced, $d9 using 1:2 with points pt 7 lc '#CC79A7' title 'int6, sr, soft3' noenhanced, $d10 using 1:2 with points pt 7 lc '#E69F00' title 'int6, qr, soft3' noenhanced, $d11 using 1:2 with points pt 7 lc '#56B4E9' title 'int5, qr, soft4' noenhanced, $d12 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d13 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'accuracy' noenhanced
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
set yrange [89:98]

plot $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32, fp32' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8, sr, soft4' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8, qr, soft4' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int6, sr, soft3' noenhanced, $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int6, qr, soft3' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int5, qr, soft4' noenhanced
unset multiplot
set output
