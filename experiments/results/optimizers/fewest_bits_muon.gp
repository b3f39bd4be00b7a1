set encoding utf8
$d0 << EOD
69.935 1.6332 1.6281 1.63829
EOD
$d1 << EOD
13.4832 1.70515 1.69762 1.71268
14.4672 1.6768 1.6704 1.6832
15.4513 1.66875 1.66508 1.67242
EOD
$d2 << EOD
13.4832 0.0719551 0.0660996 0.0778106
14.4672 0.0436003 0.0376974 0.0495033
15.4513 0.0355576 0.029717 0.0413981
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fewest_bits_muon' . '.' . type
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
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'lpmm-nano' noenhanced
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

plot $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'lpmm-nano' noenhanced
unset multiplot
set output
