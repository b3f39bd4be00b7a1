set encoding utf8
$d0 << EOD
4 4878.11
5 2212.16
6 603.805
8 0.00605502
EOD
$d1 << EOD
4 0.0878017
5 0.0437285
6 0.0224805
8 0.00605502
EOD
$d2 << EOD
2 0.379037
3 0.278271
4 0.194837
5 0.129965
6 0.0839235
8 0.0414262
EOD
$d3 << EOD
2 0.266622
3 0.159586
4 0.0919261
5 0.0464753
6 0.0241501
8 0.00694638
EOD
$d4 << EOD
4 6201.93
5 4418.13
6 1766.81
8 89.0274
EOD
$d5 << EOD
2 0.228969
3 0.0910594
4 0.0382919
5 0.0184375
6 0.00912089
8 0.00222988
EOD
$d6 << EOD
4 5051.9
5 2404.5
6 659.706
8 0.00850688
EOD
$d7 << EOD
4 0.117359
5 0.0603547
6 0.0318702
8 0.00850688
EOD
$d8 << EOD
2 0.382243
3 0.283919
4 0.201604
5 0.137146
6 0.0907582
8 0.0452331
EOD
$d9 << EOD
2 0.302068
3 0.200508
4 0.120199
5 0.0602417
6 0.030446
8 0.00932615
EOD
$d10 << EOD
4 6375.46
5 3950.33
6 1968.94
8 463.099
EOD
$d11 << EOD
2 0.251217
3 0.118845
4 0.0535931
5 0.0261139
6 0.0128141
8 0.00317288
EOD
$d12 << EOD
4 0.111418
5 0.0591218
6 0.0312624
8 0.00851389
EOD
$d13 << EOD
2 0.381967
3 0.283031
4 0.200704
5 0.136171
6 0.0896792
8 0.0446794
EOD
$d14 << EOD
2 0.279745
3 0.180307
4 0.108194
5 0.0578378
6 0.0302729
8 0.00905469
EOD
$d15 << EOD
2 0.245963
3 0.115608
4 0.0531406
5 0.0260418
6 0.0128095
8 0.00317364
EOD
$d16 << EOD
4 0.114102
5 0.0596904
6 0.0314585
8 0.00854746
EOD
$d17 << EOD
2 0.38212
3 0.283343
4 0.201161
5 0.136626
6 0.0901178
8 0.0449732
EOD
$d18 << EOD
2 0.290816
3 0.190638
4 0.112894
5 0.0590177
6 0.0303933
8 0.00916421
EOD
$d19 << EOD
2 0.248234
3 0.117213
4 0.0532457
5 0.0260663
6 0.0128117
8 0.00317388
EOD
$d20 << EOD
2 0.854881
3 0.439663
4 0.220534
5 0.110593
6 0.0551309
7 0.0273907
8 0.013529
EOD
$d21 << EOD
4 0.1828
5 0.0996713
6 0.0523047
8 0.013776
EOD
$d22 << EOD
3 0.336831
4 0.152427
5 0.0724671
6 0.035253
8 0.00859756
EOD
$d23 << EOD
4 0.151204
EOD
$d24 << EOD
8 0.0260881
EOD
$d25 << EOD
2 1.60746
3 0.683173
4 0.326949
5 0.158282
6 0.0785078
7 0.0388143
8 0.0190382
EOD
$d26 << EOD
4 0.260454
5 0.141611
6 0.0736358
8 0.0194133
EOD
$d27 << EOD
3 0.499927
4 0.217053
5 0.101709
6 0.0504496
8 0.0122593
EOD
$d28 << EOD
4 0.216079
EOD
$d29 << EOD
8 0.0369088
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'update_error' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,960 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,960 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'variance, rn' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'error of the update' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-3:2]
plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'ude' noenhanced, $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de0' noenhanced, $d2 using 1:2 with linespoints pt 7 lc '#009E73' title 'lin0' noenhanced, $d3 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt0' noenhanced, $d4 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt' noenhanced, $d5 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'log0' noenhanced
set origin 0.3333333333333333,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'variance, sr' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'error of the update' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-3:2]
plot $d6 using 1:2 with linespoints pt 7 lc '#0072B2' title 'ude' noenhanced, $d7 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de0' noenhanced, $d8 using 1:2 with linespoints pt 7 lc '#009E73' title 'lin0' noenhanced, $d9 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt0' noenhanced, $d10 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt' noenhanced, $d11 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'log0' noenhanced
set origin 0.6666666666666666,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'variance, ur' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'error of the update' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-3:2]
plot $d12 using 1:2 with linespoints pt 7 lc '#0072B2' title 'de0' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#D55E00' title 'lin0' noenhanced, $d14 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt0' noenhanced, $d15 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'log0' noenhanced
set origin 0,0
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'variance, ar' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'error of the update' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-3:2]
plot $d16 using 1:2 with linespoints pt 7 lc '#0072B2' title 'de0' noenhanced, $d17 using 1:2 with linespoints pt 7 lc '#D55E00' title 'lin0' noenhanced, $d18 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt0' noenhanced, $d19 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'log0' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'momentum, rn' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'error of the update' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-3:2]
plot $d20 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int' noenhanced, $d21 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de' noenhanced, $d22 using 1:2 with linespoints pt 7 lc '#009E73' title 'soft' noenhanced, $d23 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'nf' noenhanced, $d24 using 1:2 with linespoints pt 7 lc '#E69F00' title 'e4m3' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'momentum, sr' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'error of the update' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-3:2]
plot $d25 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int' noenhanced, $d26 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de' noenhanced, $d27 using 1:2 with linespoints pt 7 lc '#009E73' title 'soft' noenhanced, $d28 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'nf' noenhanced, $d29 using 1:2 with linespoints pt 7 lc '#E69F00' title 'e4m3' noenhanced
unset multiplot
set output
