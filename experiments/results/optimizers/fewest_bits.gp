set encoding utf8
$d0 << EOD
96 1.74821 1.73805 1.75836
EOD
$d1 << EOD
96 1.76205
96 1.745
96 1.75308
96 1.76594
96 1.74297
96 1.74282
96 1.74637
96 1.72742
EOD
$d2 << EOD
13.7654 1.7745 1.76686 1.78215
13.7654 1.77077 1.76264 1.7789
14.7494 1.74548 1.73612 1.75484
EOD
$d3 << EOD
14.7494 1.75117
14.7494 1.74686
14.7494 1.73638
14.7494 1.76578
14.7494 1.73536
14.7494 1.75067
14.7494 1.74688
14.7494 1.73075
13.7654 1.76918
13.7654 1.78003
13.7654 1.76534
13.7654 1.78645
13.7654 1.78043
13.7654 1.78398
13.7654 1.76698
13.7654 1.76364
13.7654 1.76696
13.7654 1.78281
13.7654 1.76225
13.7654 1.78556
13.7654 1.77802
13.7654 1.76431
13.7654 1.76286
13.7654 1.76338
EOD
$d4 << EOD
12.7813 1.80782 1.79783 1.81781
13.7654 1.78057 1.77135 1.78979
EOD
$d5 << EOD
13.7654 1.78564
13.7654 1.79001
13.7654 1.77466
13.7654 1.7964
13.7654 1.76252
13.7654 1.7699
13.7654 1.78385
13.7654 1.7816
12.7813 1.80048
12.7813 1.81712
12.7813 1.79957
12.7813 1.83157
12.7813 1.80425
12.7813 1.81123
12.7813 1.79403
12.7813 1.80428
EOD
$d6 << EOD
13.7654 0.026297 0.0155783 0.0370156
13.7654 0.0225616 0.0120556 0.0330675
14.7494 -0.00272601 -0.00959392 0.00414191
EOD
$d7 << EOD
14.7494 -0.0108873
14.7494 0.00185544
14.7494 -0.0167044
14.7494 -0.000162093
14.7494 -0.00760699
14.7494 0.00784741
14.7494 0.000518752
14.7494 0.00333113
13.7654 0.00712938
13.7654 0.0350301
13.7654 0.012255
13.7654 0.0205027
13.7654 0.037461
13.7654 0.0411568
13.7654 0.0206175
13.7654 0.0362232
13.7654 0.0049029
13.7654 0.037803
13.7654 0.00916915
13.7654 0.0196204
13.7654 0.0350496
13.7654 0.0214919
13.7654 0.0164985
13.7654 0.0359573
EOD
$d8 << EOD
12.7813 0.0596098 0.0480672 0.0711525
13.7654 0.032365 0.0221215 0.0426086
EOD
$d9 << EOD
13.7654 0.0235917
13.7654 0.0450065
13.7654 0.021576
13.7654 0.0304528
13.7654 0.0195526
13.7654 0.0270813
13.7654 0.037481
13.7654 0.0541784
12.7813 0.0384265
12.7813 0.0721154
12.7813 0.0464872
12.7813 0.0656273
12.7813 0.0612844
12.7813 0.0684107
12.7813 0.0476607
12.7813 0.0768663
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int7:block128:qr:sticky' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int6:block128:qr:sticky' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
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

plot $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int7:block128:qr:sticky' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int6:block128:qr:sticky' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
unset multiplot
set output
