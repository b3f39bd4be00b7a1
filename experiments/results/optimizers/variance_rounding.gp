set encoding utf8
$d0 << EOD
17.7016 -0.0190568 -0.0236622 -0.0144513
EOD
$d1 << EOD
17.7016 -0.0157388
17.7016 -0.0283517
17.7016 -0.0172398
17.7016 -0.0254376
17.7016 -0.0181183
17.7016 -0.0140037
17.7016 -0.02092
17.7016 -0.0126444
EOD
$d2 << EOD
17.7016 -0.00753509 -0.016034 0.000963855
EOD
$d3 << EOD
17.7016 -0.00757087
17.7016 -0.0066791
17.7016 -0.0281141
17.7016 -0.00178681
17.7016 -0.0167598
17.7016 0.001014
17.7016 -0.00044362
17.7016 5.96343e-05
EOD
$d4 << EOD
14.7494 -0.00272601 -0.00959392 0.00414191
EOD
$d5 << EOD
14.7494 -0.0108873
14.7494 0.00185544
14.7494 -0.0167044
14.7494 -0.000162093
14.7494 -0.00760699
14.7494 0.00784741
14.7494 0.000518752
14.7494 0.00333113
EOD
$d6 << EOD
14.7494 0.00859581 0.00204346 0.0151482
EOD
$d7 << EOD
14.7494 0.0042682
14.7494 0.00875464
14.7494 0.010651
14.7494 -0.00215396
14.7494 0.000456068
14.7494 0.0199143
14.7494 0.00842835
14.7494 0.0184479
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'sqrt04:block128:ar:sticky' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'sqrt02:block128:sr' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'sqrt02:block128:ar' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle
unset multiplot
set output
