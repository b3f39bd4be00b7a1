set encoding utf8
$d0 << EOD
96 1.74821 1.73805 1.75836
EOD
$d1 << EOD
14.4269 1.78636 1.77495 1.79778
EOD
$d2 << EOD
14.4039 1.79376 1.78276 1.80476
EOD
$d3 << EOD
14.4269 0.0381563 0.0307667 0.0455458
EOD
$d4 << EOD
14.4039 0.0455531 0.0354445 0.0556617
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'larger_blocks' . '.' . type
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int7:block1024:qr:sticky' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int7:block2048:qr:sticky' noenhanced
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

plot $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int7:block1024:qr:sticky' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int7:block2048:qr:sticky' noenhanced
unset multiplot
set output
