set encoding utf8
$d0 << EOD
96 1.74821 1.73805 1.75836
EOD
$d1 << EOD
13.7654 1.7745 1.76686 1.78215
13.7654 1.77077 1.76264 1.7789
14.7494 1.74548 1.73612 1.75484
EOD
$d2 << EOD
12.7813 1.80782 1.79783 1.81781
13.7654 1.78057 1.77135 1.78979
EOD
$d3 << EOD
13.7654 0.026297 0.0155783 0.0370156
13.7654 0.0225616 0.0120556 0.0330675
14.7494 -0.00272601 -0.00959392 0.00414191
EOD
$d4 << EOD
12.7813 0.0596098 0.0480672 0.0711525
13.7654 0.032365 0.0221215 0.0426086
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fewest_bits' . '.' . type
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
set title 'validation loss' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int7:block128:qr:sticky' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int6:block128:qr:sticky' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int7:block128:qr:sticky' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int6:block128:qr:sticky' noenhanced
unset multiplot
set output
