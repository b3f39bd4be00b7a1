set encoding utf8
$d0 << EOD
97.2286 1.74821 1.73805 1.75836
EOD
$d1 << EOD
13.8872 1.76921 1.75937 1.77905
13.8872 1.77097 1.76206 1.77989
14.8712 1.74754 1.7383 1.75679
EOD
$d2 << EOD
12.9031 1.81169 1.79784 1.82554
13.8872 1.77725 1.76541 1.78909
EOD
$d3 << EOD
13.8872 0.0210074 0.0142452 0.0277696
13.8872 0.0227679 0.0153437 0.0301922
14.8712 -0.000664852 -0.00862397 0.00729427
EOD
$d4 << EOD
12.9031 0.0634842 0.0556774 0.071291
13.8872 0.0290441 0.0189776 0.0391106
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
set xtics auto norotate
set ytics auto
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
set xtics auto norotate
set ytics auto
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int7:block128:qr:sticky' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int6:block128:qr:sticky' noenhanced
unset multiplot
set output
