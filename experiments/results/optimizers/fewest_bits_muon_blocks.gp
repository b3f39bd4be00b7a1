set encoding utf8
$d0 << EOD
14.5133 0.0448286 0.0386191 0.0510382
EOD
$d1 << EOD
14.5133 0.0522353 0.0439987 0.060472
EOD
$d2 << EOD
13.5907 0.0680617 0.0619561 0.0741674
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fewest_bits_muon_blocks' . '.' . type
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
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int7:block256:qr:sticky' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block256:qr:sticky' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int7:block128:qr:sticky' noenhanced
unset multiplot
set output
