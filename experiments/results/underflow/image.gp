set encoding utf8
$d0 << EOD
0 0 16050150 41.4
0 1 5934272 70.8
1 0 15396595 47.1
1 1 6657220 68.9
2 0 15330802 47.3
2 1 4357304 74.6
3 0 15199473 47.6
3 1 5211580 72.5
4 0 15002352 48.1
4 1 5211580 72.5
EOD
$d1 << EOD
0 0 15450040 31.9
0 1 6394306 69.6
1 0 15851226 39.1
1 1 5343165 72.1
2 0 15659508 46.5
2 1 4686009 73.8
3 0 15856629 46.0
3 1 4686009 73.8
4 0 15659508 46.5
4 1 3371698 77.1
EOD
$d2 << EOD
0 0 14116435 11.3
0 1 14315615 13.8
1 0 14250079 13.7
1 1 14783366 21.8
2 0 14516595 17.8
2 1 15784148 37.7
3 0 15450812 32.8
3 1 5474494 71.8
4 0 15330802 47.3
4 1 4160439 75.0
EOD
$d3 << EOD
0 0 15784148 37.8
0 1 6723012 68.7
1 0 16051178 42.2
1 1 6460099 69.3
2 0 15856629 45.9
2 1 5474494 71.8
3 0 16053750 45.6
3 1 5343165 72.2
4 0 16250614 44.7
4 1 5934528 70.7
EOD
$d4 << EOD
0 0 15783891 37.6
0 1 6788549 68.5
1 0 15265266 47.4
1 1 4488888 74.2
2 0 14542318 49.2
2 1 5014459 72.9
3 0 15725300 46.3
3 1 3174577 77.5
4 0 14739695 48.7
4 1 5080252 72.8
EOD
$d5 << EOD
0 0 15450040 32.1
0 1 6854341 68.5
1 0 16184307 44.1
1 1 4620217 74.0
2 0 16250357 44.5
2 1 3306162 77.1
3 0 16184563 44.2
3 1 3765940 76.0
4 0 15790837 46.2
4 1 5211580 72.5
EOD
$d6 << EOD
0 0 14182486 11.9
0 1 14249822 13.6
1 0 14316129 14.2
1 1 14983831 25.2
2 0 14583415 18.7
2 1 11322589 57.3
3 0 15449783 31.9
3 1 5474493 71.9
4 0 15462387 46.9
4 1 4751546 73.7
EOD
$d7 << EOD
0 0 16117485 42.9
0 1 7051462 67.8
1 0 16183793 43.7
1 1 3437491 77.0
2 0 15462387 46.9
2 1 5145788 72.7
3 0 14936816 48.2
3 1 6591427 69.1
4 0 15462387 46.9
4 1 4094646 75.2
EOD
$d8 << EOD
0 0 14115921 0.987
0 1 14182486 0.972
1 0 14116178 0.984
1 1 14183257 0.964
2 0 14249050 0.961
2 1 14516594 0.891
3 0 14583416 0.873
3 1 15516862 0.668
4 0 15717069 0.623
4 1 12505571 0.367
EOD
$d9 << EOD
0 0 16053750 0.492
0 1 14213868 0.428
1 0 16117228 0.532
1 1 15396594 0.469
2 0 15462387 0.473
2 1 13294055 0.395
3 0 14849930 0.819
3 1 15983584 0.567
4 0 15850713 0.589
4 1 11585502 0.333
EOD
$d10 << EOD
0 0 14983575 0.783
0 1 14916752 0.802
1 0 14049871 0.993
1 1 14115408 0.992
2 0 14115664 0.991
2 1 14182743 0.971
3 0 14249308 0.957
3 1 15250089 0.730
4 0 15450811 0.677
4 1 13162470 0.390
EOD
$d11 << EOD
0 0 14182485 0.975
0 1 14183001 0.966
1 0 14183000 0.967
1 1 14249822 0.950
2 0 14315615 0.946
2 1 14582644 0.885
3 0 14649723 0.863
3 1 15516348 0.674
4 0 15716812 0.625
4 1 12373986 0.363
EOD
$d12 << EOD
4 0.00168026 0.00168026 0.00168026
6 0.00817254 0.00817254 0.00817254
8 0.0330501 0.0330501 0.0330501
10 0.131475 0.131475 0.131475
12 0.535376 0.535376 0.535376
EOD
$d13 << EOD
4 0.00178826 0.00178826 0.00178826
6 0.00809085 0.00809085 0.00809085
8 0.034113 0.034113 0.034113
10 0.137666 0.137666 0.137666
12 0.553008 0.553008 0.553008
EOD
$d14 << EOD
4 0.00112487 0.00112487 0.00112487
6 0.00732743 0.00732743 0.00732743
8 0.0340676 0.0340676 0.0340676
10 0.13009 0.13009 0.13009
12 0.527676 0.527676 0.527676
EOD
$d15 << EOD
4 0.0173157 0.0173157 0.0173157
6 0.0266643 0.0266643 0.0266643
8 0.0478037 0.0478037 0.0478037
10 0.142925 0.142925 0.142925
12 0.524579 0.524579 0.524579
EOD
$d16 << EOD
4 0.00482145 0.00482145 0.00482145
6 0.0257306 0.0257306 0.0257306
8 0.10449 0.10449 0.10449
10 0.429498 0.429498 0.429498
12 1.6408 1.6408 1.6408
EOD
$d17 << EOD
4 0.00561197 0.00561197 0.00561197
6 0.0251506 0.0251506 0.0251506
8 0.109397 0.109397 0.109397
10 0.442157 0.442157 0.442157
12 1.8532 1.8532 1.8532
EOD
$d18 << EOD
4 0.00130939 0.00130939 0.00130939
6 0.0300265 0.0300265 0.0300265
8 0.105409 0.105409 0.105409
10 0.413463 0.413463 0.413463
12 1.69564 1.69564 1.69564
EOD
$d19 << EOD
4 0.0249579 0.0249579 0.0249579
6 0.0413507 0.0413507 0.0413507
8 0.111945 0.111945 0.111945
10 0.400501 0.400501 0.400501
12 1.71941 1.71941 1.71941
EOD
$d20 << EOD
10 2.3876
20 2.39476
30 2.3158
40 2.29158
50 2.2197
60 2.16236
70 2.04373
80 2.06434
90 1.96456
100 1.87755
110 1.72925
120 1.65343
130 1.61042
140 1.45877
150 1.4064
160 1.31346
170 1.28454
180 1.24512
190 1.22417
200 1.18326
210 1.16608
220 1.14506
230 1.15228
234 1.1341
EOD
$d21 << EOD
10 2.3896
20 2.4085
30 2.30934
40 2.26528
50 2.17824
60 2.0811
70 1.98203
80 1.86511
90 1.72644
100 1.6148
110 1.51877
120 1.48689
130 1.47504
140 1.31033
150 1.26191
160 1.17222
170 1.14205
180 1.10602
190 1.07552
200 1.04591
210 1.02148
220 1.02803
230 1.04386
234 1.01152
EOD
$d22 << EOD
10 2.38963
20 2.39813
30 2.32832
40 2.33782
50 2.30804
60 2.27949
70 2.25174
80 2.22261
90 2.19159
100 2.17458
110 2.14414
120 2.1459
130 2.13615
140 2.12072
150 2.13603
160 2.12067
170 2.11651
180 2.11297
190 2.11666
200 2.10733
210 2.0863
220 2.09976
230 2.09922
234 2.09897
EOD
$d23 << EOD
10 2.38792
20 2.40079
30 2.30321
40 2.26858
50 2.19404
60 2.12719
70 2.00588
80 1.91157
90 1.80404
100 1.70444
110 1.56426
120 1.54896
130 1.55461
140 1.38464
150 1.32785
160 1.24805
170 1.22061
180 1.17492
190 1.13542
200 1.12499
210 1.09015
220 1.07247
230 1.07974
234 1.05549
EOD
$d24 << EOD
25 0.953445
50 0.954269
75 0.957139
100 0.965425
125 0.976104
150 0.97325
175 0.988297
200 0.990873
225 0.991717
EOD
$d25 << EOD
25 0.944813
50 0.956541
75 0.928223
100 0.949727
125 0.962848
150 0.973184
175 0.982096
200 0.987514
225 0.9931
EOD
$d26 << EOD
25 0.835168
50 0.826721
75 0.836324
100 0.842024
125 0.849661
150 0.916017
175 0.947031
200 0.973846
225 0.992024
EOD
$d27 << EOD
25 0.499057
50 0.499343
75 0.44051
100 0.528516
125 0.611197
150 0.705548
175 0.823223
200 0.922625
225 0.986677
EOD
$d28 << EOD
25 0.154416
50 0.169319
75 0.151906
100 0.177328
125 0.208825
150 0.304351
175 0.460611
200 0.713462
225 0.967314
EOD
$d29 << EOD
25 0.00879979
50 0.00876801
75 0.00796047
100 0.00653523
125 0.00543237
150 0.00333196
175 0.00177021
200 0.000726233
225 6.8823e-05
EOD
$d30 << EOD
25 0.0437411
50 0.0366371
75 0.0534937
100 0.0388082
125 0.0269561
150 0.0175924
175 0.0100161
200 0.00395446
225 0.000376262
EOD
$d31 << EOD
25 0.176792
50 0.173439
75 0.160856
100 0.149991
125 0.141406
150 0.0758239
175 0.0429073
200 0.0177368
225 0.00145956
EOD
$d32 << EOD
25 0.696767
50 0.669755
75 0.971398
100 0.550428
125 0.429047
150 0.299159
175 0.17015
200 0.0725772
225 0.00619845
EOD
$d33 << EOD
25 2.85539
50 2.47476
75 2.9967
100 2.2978
125 1.89862
150 1.20631
175 0.716777
200 0.294243
225 0.0265993
EOD
$d34 << EOD
25 0.0145176
50 0.0114625
75 0.00528623
100 0.0104131
125 0.0116881
150 0.0135212
175 0.014783
200 0.00962956
225 0.0143713
EOD
$d35 << EOD
25 0.000610971
50 0.000823483
75 0.000146102
100 0.000557843
125 0.000863328
150 0.000969597
175 0.000664099
200 0.000491433
225 0.000703945
EOD
$d36 << EOD
25 0.0211848
50 0.00595033
75 0.00358613
100 0.00356621
125 0.00229778
150 0.00418382
175 0.00284898
200 0.00654801
225 0.00432992
EOD
$d37 << EOD
25 0.00109576
50 0.000351972
75 0.000697304
100 0.000305485
125 0.000232435
150 0.000391818
175 0.000205871
200 0.000703945
225 0.000252358
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'image' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,3360 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,3360 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0.8571428571428572
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 8 bits: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d0 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.8571428571428572
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 8 bits: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d1 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.8571428571428572
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 8 bits: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d2 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d2 using 1:2:4 with labels notitle
set origin 0,0.7142857142857143
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 8 bits: sr, sticky, feedback' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d3 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d3 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.7142857142857143
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 4 bits: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d4 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d4 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.7142857142857143
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 4 bits: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d5 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d5 using 1:2:4 with labels notitle
set origin 0,0.5714285714285714
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 4 bits: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d6 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d6 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.5714285714285714
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy, 4 bits: sr, sticky, feedback' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d7 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d7 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.5714285714285714
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'updates lost: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d8 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d8 using 1:2:4 with labels notitle
set origin 0,0.4285714285714286
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'updates lost: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d9 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d9 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.4285714285714286
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'updates lost: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d10 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d10 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.4285714285714286
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'updates lost: sr, sticky, feedback' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)

plot $d11 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d11 using 1:2:4 with labels notitle
set origin 0,0.2857142857142858
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters: 0.03' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.3333333333333333,0.2857142857142858
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters: 0.1' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.6666666666666666,0.2857142857142858
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'training loss, 6-bit parameters' noenhanced
set xlabel 'step' noenhanced
set ylabel 'train/loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d20 using 1:2 with lines lw 2 lc '#0072B2' title 'sr, sticky' noenhanced, $d21 using 1:2 with lines lw 2 lc '#D55E00' title 'sr, moving' noenhanced, $d22 using 1:2 with lines lw 2 lc '#009E73' title 'rn, sticky' noenhanced, $d23 using 1:2 with lines lw 2 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0,0.1428571428571429
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'parameter updates lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d24 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d25 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d26 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d27 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d28 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
set origin 0.3333333333333333,0.1428571428571429
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'update_to_step/parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d29 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d30 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d31 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d32 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d33 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
set origin 0.6666666666666666,0.1428571428571429
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'changes lost, by bits of the momentum' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/momentum' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d34 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d35 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
set origin 0,0
set size 0.3333333333333333,0.14285714285714285
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'folds lost, by bits of the accumulator' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/accumulator' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d36 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d37 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
unset multiplot
set output
