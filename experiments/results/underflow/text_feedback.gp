$d0 << EOD
4 -0.00829001 -0.372082 0.355502
6 -0.00249908 -0.00308916 -0.001909
8 0.0138734 -0.198471 0.226218
10 0.0182269 -0.180475 0.216929
12 -0.00347544 -0.0256278 0.0186769
EOD
$d1 << EOD
4 0.0777871 -0.340048 0.495622
6 0.0161132 -0.178299 0.210525
8 0.00276205 -0.164864 0.170388
10 0.00520922 -0.0722648 0.0826832
12 0.00641802 -0.076142 0.088978
EOD
$d2 << EOD
4 0.110521 -0.589506 0.810547
6 -0.0160794 -0.321081 0.288922
8 8.68727e-05 -0.0624994 0.0626732
10 0.00208678 -0.138078 0.142251
12 -0.00915746 -0.116352 0.0980369
EOD
$d3 << EOD
4 0.296141 -0.64136 1.23364
6 0.0512448 -0.303776 0.406265
8 0.00975559 -0.161939 0.181451
10 -0.0131353 -0.121965 0.0956941
12 -0.00152987 -0.223821 0.220762
EOD
set grid
set xlabel offset 0,0.6
set terminal png size 1120,480
set output 'text_feedback.png'
set multiplot layout 1,2
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'validation loss above fp32: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'false' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'true' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'validation loss above fp32: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'false' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'true' noenhanced
unset multiplot
set terminal svg size 1120,480 dynamic background 'white'
set output 'text_feedback.svg'
set multiplot layout 1,2
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'validation loss above fp32: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'false' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'true' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'validation loss above fp32: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'false' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'true' noenhanced
unset multiplot
