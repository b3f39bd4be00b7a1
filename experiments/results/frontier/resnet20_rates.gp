set encoding utf8
$d0 << EOD
0.05 0.288234 0.288234 0.288234
0.1 0.244205 0.244205 0.244205
0.2 0.225114 0.225114 0.225114
0.4 0.272046 0.272046 0.272046
EOD
$d1 << EOD
0.05 0.30036 0.30036 0.30036
0.1 0.260076 0.260076 0.260076
0.2 0.245084 0.245084 0.245084
0.4 0.295745 0.295745 0.295745
EOD
$d2 << EOD
0.05 84.87 84.87 84.87
0.1 86.39 86.39 86.39
0.2 86.43 86.43 86.43
0.4 85.77 85.77 85.77
EOD
$d3 << EOD
0.05 85.28 85.28 85.28
0.1 85.61 85.61 85.61
0.2 86.1 86.1 86.1
0.4 85.1 85.1 85.1
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'resnet20_rates' . '.' . type
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
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'final training loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'final_loss' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set logscale x
set xtics ('0.05' 0.05, '0.1' 0.1, '0.2' 0.2, '0.4' 0.4)

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'lpmm-nano' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'test accuracy' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'accuracy' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set logscale x
set xtics ('0.05' 0.05, '0.1' 0.1, '0.2' 0.2, '0.4' 0.4)

plot $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'lpmm-nano' noenhanced
unset multiplot
set output
