set encoding utf8
$d0 << EOD
144.261 0.0022118 -0.00304798 0.00747158
EOD
$d1 << EOD
144.261 0.000370021
144.261 0.00452518
144.261 0.00174019
EOD
$d2 << EOD
144.384 0.00266966 -0.018321 0.0236603
EOD
$d3 << EOD
144.384 -0.00195625
144.384 0.0124224
144.384 -0.00245721
EOD
$d4 << EOD
140.45 0.00356389 -0.0182514 0.0253792
EOD
$d5 << EOD
140.45 -0.000217151
140.45 0.0136029
140.45 -0.00269413
EOD
$d6 << EOD
140.45 -0.00192389 -0.00724145 0.00339368
EOD
$d7 << EOD
140.45 4.31546e-06
140.45 -0.00154869
140.45 -0.00422729
EOD
$d8 << EOD
140.45 -0.00233228 -0.0095499 0.00488534
EOD
$d9 << EOD
140.45 0.000607795
140.45 -0.00240273
140.45 -0.00520189
EOD
$d10 << EOD
138.482 0.000634916 -0.0133895 0.0146593
EOD
$d11 << EOD
138.482 0.000315329
138.482 0.00643349
138.482 -0.00484407
EOD
$d12 << EOD
136.515 0.00128696 -0.0192733 0.0218472
EOD
$d13 << EOD
136.515 -0.000461162
136.515 0.010298
136.515 -0.00597595
EOD
$d14 << EOD
136.515 -0.00103484 -0.0113566 0.00928692
EOD
$d15 << EOD
136.515 -0.000321576
136.515 -0.00550037
136.515 0.00271743
EOD
$d16 << EOD
136.515 0.00663111 -0.0104752 0.0237374
EOD
$d17 << EOD
136.515 0.00313853
136.515 0.0145638
136.515 0.00219103
EOD
$d18 << EOD
144.261 0.529279 -0.328525 1.38708
EOD
$d19 << EOD
144.261 0.561655
144.261 0.857264
144.261 0.168919
EOD
$d20 << EOD
144.384 0.364583 -1.43129 2.16045
EOD
$d21 << EOD
144.384 -0.0464527
144.384 1.19932
144.384 -0.0591216
EOD
$d22 << EOD
140.45 0.136543 -0.559973 0.833059
EOD
$d23 << EOD
140.45 -0.0253378
140.45 0.460304
140.45 -0.0253378
EOD
$d24 << EOD
140.45 -0.177365 -1.2562 0.901469
EOD
$d25 << EOD
140.45 -0.0253378
140.45 0.160473
140.45 -0.66723
EOD
$d26 << EOD
140.45 0.320946 -0.256791 0.898683
EOD
$d27 << EOD
140.45 0.0548986
140.45 0.422297
140.45 0.485642
EOD
$d28 << EOD
138.482 -0.530687 -2.1577 1.09632
EOD
$d29 << EOD
138.482 -1.11486
138.482 0.177365
138.482 -0.654561
EOD
$d30 << EOD
136.515 0.320946 -0.626917 1.26881
EOD
$d31 << EOD
136.515 0.658784
136.515 -0.0929054
136.515 0.396959
EOD
$d32 << EOD
136.515 -0.413851 -1.20398 0.376282
EOD
$d33 << EOD
136.515 -0.380068
136.515 -0.11402
136.515 -0.747466
EOD
$d34 << EOD
136.515 -0.213964 -1.46819 1.04026
EOD
$d35 << EOD
136.515 -0.0633446
136.515 0.19848
136.515 -0.777027
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'slow_momentum' . '.' . type
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
set title 'training loss above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'loss_gap' noenhanced
set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'bf16:sr' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int16:block128:sr:sticky' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'int12:block128:sr:sticky' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'int12:block128:qr:sticky' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'int12:block128:rn' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#56B4E9' notitle, $d10 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'int10:block128:qr:sticky' noenhanced, $d11 using 1:2 with points pt 6 ps 0.4 lc '#000000' notitle, $d12 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'int8:block128:sr:sticky' noenhanced, $d13 using 1:2 with points pt 6 ps 0.4 lc '#8C8C00' notitle, $d14 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'int8:block128:qr:sticky' noenhanced, $d15 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d16 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'int8:block128:rn' noenhanced, $d17 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'points of validation accuracy below fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'accuracy_gap' noenhanced
set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9

plot $d18 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'bf16:sr' noenhanced, $d19 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d20 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int16:block128:sr:sticky' noenhanced, $d21 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d22 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'int12:block128:sr:sticky' noenhanced, $d23 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d24 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'int12:block128:qr:sticky' noenhanced, $d25 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle, $d26 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'int12:block128:rn' noenhanced, $d27 using 1:2 with points pt 6 ps 0.4 lc '#56B4E9' notitle, $d28 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'int10:block128:qr:sticky' noenhanced, $d29 using 1:2 with points pt 6 ps 0.4 lc '#000000' notitle, $d30 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'int8:block128:sr:sticky' noenhanced, $d31 using 1:2 with points pt 6 ps 0.4 lc '#8C8C00' notitle, $d32 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'int8:block128:qr:sticky' noenhanced, $d33 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d34 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'int8:block128:rn' noenhanced, $d35 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
unset multiplot
set output
