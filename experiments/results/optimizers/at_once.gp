set encoding utf8
$d0 << EOD
128 2.26509 2.22979 2.30038
EOD
$d1 << EOD
14.7248 2.28481 2.24368 2.32595
17.6758 2.241 2.22486 2.25713
EOD
$d2 << EOD
19.3051 2.27216 2.24831 2.296
22.2561 2.24168 2.19795 2.28541
EOD
$d3 << EOD
14.7248 0.019727 -0.036236 0.07569
17.6758 -0.0240919 -0.0539052 0.00572141
EOD
$d4 << EOD
19.3051 0.00707119 -0.0347889 0.0489313
22.2561 -0.0234075 -0.0575243 0.0107093
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'at_once' . '.' . type
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'none' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft4:block128:sr' noenhanced
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

plot $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'none' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'soft4:block128:sr' noenhanced
unset multiplot
set output
