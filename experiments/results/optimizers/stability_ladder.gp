set encoding utf8
$d0 << EOD
0.001 2.47045 2.44851 2.4924
0.003 2.16906 2.05397 2.28416
0.01 2.6266 2.5358 2.71741
EOD
$d1 << EOD
0.001 2.45604 2.43128 2.4808
0.003 2.17813 2.02878 2.32749
0.01 2.67157 2.58419 2.75895
EOD
$d2 << EOD
0.001 2.44538 2.41637 2.47439
0.003 2.17132 2.02792 2.31472
0.01 2.6294 2.52209 2.73671
EOD
$d3 << EOD
0.001 2.4583 2.42277 2.49383
0.003 2.21868 2.07656 2.36081
0.01 2.63147 2.55626 2.70668
EOD
$d4 << EOD
0.001 1.58106e+11 1.58106e+11 1.58106e+11
0.003 1.26103e+11 -1.4755e+12 1.72771e+12
EOD
$d5 << EOD
0.001 2.46962 2.44577 2.49347
0.003 2.04168 2.00384 2.07952
0.01 2.59755 2.51646 2.67864
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'stability_ladder' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 560,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 560,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 1,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'final validation loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
set yrange [1.9:2.8]

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'lin08:block4096:rn' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'ude8:block4096:rn' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'ude8:block256:rn' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'ude4:block128:rn' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'de04:block128:rn' noenhanced
unset multiplot
set output
