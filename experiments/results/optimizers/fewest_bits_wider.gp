set encoding utf8
$d0 << EOD
96 1.56661 1.56184 1.57138
EOD
$d1 << EOD
96 1.57599
96 1.56158
96 1.56843
96 1.57209
96 1.56948
96 1.56296
96 1.56069
96 1.56168
EOD
$d2 << EOD
13.8502 1.56937 1.56555 1.5732
EOD
$d3 << EOD
13.8502 1.56891
13.8502 1.57112
13.8502 1.56221
13.8502 1.56555
13.8502 1.57134
13.8502 1.57352
13.8502 1.5662
13.8502 1.57616
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fewest_bits_wider' . '.' . type
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
set title 'validation loss' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'lpmm-nano' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
unset multiplot
set output
