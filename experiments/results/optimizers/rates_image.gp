set encoding utf8
$d0 << EOD
0.1 74.9 74.9 74.9
0.3 75.95 75.95 75.95
1 10 10 10
EOD
$d1 << EOD
0.003 81.75 81.75 81.75
0.01 83.75 83.75 83.75
0.03 14.55 14.55 14.55
EOD
$d2 << EOD
0.001 55.75 55.75 55.75
0.003 82.15 82.15 82.15
0.01 81.7 81.7 81.7
EOD
$d3 << EOD
0.0003 37.8 37.8 37.8
0.001 72 72 72
0.003 89.2 89.2 89.2
EOD
$d4 << EOD
0.01 80.3 80.3 80.3
0.03 93.15 93.15 93.15
0.1 23.05 23.05 23.05
EOD
$d5 << EOD
1 61.55 61.55 61.55
3 84.4 84.4 84.4
10 77.55 77.55 77.55
EOD
$d6 << EOD
0.3 67.35 67.35 67.35
1 91.75 91.75 91.75
3 48.05 48.05 48.05
EOD
$d7 << EOD
0.0001 63.85 63.85 63.85
0.0003 76.5 76.5 76.5
0.001 18.85 18.85 18.85
EOD
$d8 << EOD
0.003 36.05 36.05 36.05
0.01 73.75 73.75 73.75
0.03 28.75 28.75 28.75
EOD
$d9 << EOD
0.001 54.5 54.5 54.5
0.003 81.75 81.75 81.75
0.01 70.75 70.75 70.75
EOD
$d10 << EOD
0.001 53.25 53.25 53.25
0.003 79.35 79.35 79.35
0.01 50.55 50.55 50.55
EOD
$d11 << EOD
0.001 56.8 56.8 56.8
0.003 81.9 81.9 81.9
0.01 67.1 67.1 67.1
EOD
$d12 << EOD
0.03 90.9 90.9 90.9
0.1 94.1 94.1 94.1
0.3 69.35 69.35 69.35
EOD
$d13 << EOD
0.01 97.45 97.45 97.45
0.03 98.85 98.85 98.85
0.1 18.2 18.2 18.2
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'rates_image' . '.' . type
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
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'test accuracy' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'accuracy' noenhanced
set key bmargin center maxrows 7 samplen 2 width 1
set bmargin 11
set logscale x

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'sgd' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'adam' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'adamw' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'lion' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'lamb' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'lars' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'lars_clip' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'rmsprop' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'adagrad' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'ademamix' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#009E73' title 'adam_mini' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#CC79A7' title 'adamw_factored' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#E69F00' title 'adafactor' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#56B4E9' title 'muon' noenhanced
unset multiplot
set output
