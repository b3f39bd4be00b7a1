set encoding utf8
$d0 << EOD
17.7016 -0.0190568 -0.0236622 -0.0144513
EOD
$d1 << EOD
17.7016 -0.00753509 -0.016034 0.000963855
EOD
$d2 << EOD
14.7494 -0.00272601 -0.00959392 0.00414191
EOD
$d3 << EOD
14.7494 0.00859581 0.00204346 0.0151482
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'variance_rounding' . '.' . type
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
set key bmargin center maxrows 2 samplen 1 width -1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'sqrt04:block128:ar:sticky' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sqrt02:block128:sr' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'sqrt02:block128:ar' noenhanced
unset multiplot
set output
