set encoding utf8
$d0 << EOD
4 50.72 50.72 50.72
6 54.51 54.51 54.51
8 55.06 55.06 55.06
10 54.31 54.31 54.31
12 54.47 54.47 54.47
EOD
$d1 << EOD
4 46.1 46.1 46.1
6 52.5 52.5 52.5
8 53.93 53.93 53.93
10 56.77 56.77 56.77
12 54.94 54.94 54.94
EOD
$d2 << EOD
4 25.46 25.46 25.46
6 38.94 38.94 38.94
8 44.72 44.72 44.72
10 53.3 53.3 53.3
12 54.25 54.25 54.25
EOD
$d3 << EOD
4 49.71 49.71 49.71
6 54.51 54.51 54.51
8 55.3 55.3 55.3
10 54.61 54.61 54.61
12 54.7 54.7 54.7
EOD
$d4 << EOD
4 0.981889 0.981889 0.981889
6 0.976624 0.976624 0.976624
8 0.931399 0.931399 0.931399
10 0.778049 0.778049 0.778049
12 0.455739 0.455739 0.455739
EOD
$d5 << EOD
4 0.433516 0.433516 0.433516
6 0.484272 0.484272 0.484272
8 0.429253 0.429253 0.429253
10 0.659445 0.659445 0.659445
12 0.402766 0.402766 0.402766
EOD
$d6 << EOD
4 0.89461 0.89461 0.89461
6 0.994173 0.994173 0.994173
8 0.982966 0.982966 0.982966
10 0.8462 0.8462 0.8462
12 0.488676 0.488676 0.488676
EOD
$d7 << EOD
4 0.968192 0.968192 0.968192
6 0.958191 0.958191 0.958191
8 0.91497 0.91497 0.91497
10 0.743197 0.743197 0.743197
12 0.441977 0.441977 0.441977
EOD
$d8 << EOD
4 0.00332181 0.00332181 0.00332181
6 0.0160809 0.0160809 0.0160809
8 0.0634647 0.0634647 0.0634647
10 0.240301 0.240301 0.240301
12 1.04846 1.04846 1.04846
EOD
$d9 << EOD
4 0.00371811 0.00371811 0.00371811
6 0.0166335 0.0166335 0.0166335
8 0.0664899 0.0664899 0.0664899
10 0.291347 0.291347 0.291347
12 1.16552 1.16552 1.16552
EOD
$d10 << EOD
4 0.00087443 0.00087443 0.00087443
6 0.0316517 0.0316517 0.0316517
8 0.0795014 0.0795014 0.0795014
10 0.255319 0.255319 0.255319
12 1.04631 1.04631 1.04631
EOD
$d11 << EOD
4 0.0253993 0.0253993 0.0253993
6 0.0355836 0.0355836 0.0355836
8 0.0800816 0.0800816 0.0800816
10 0.282423 0.282423 0.282423
12 1.08748 1.08748 1.08748
EOD
$d12 << EOD
10 2.46756
20 2.18049
30 2.07558
40 1.99367
50 1.92857
60 1.86174
70 1.84369
80 1.79
90 1.76696
100 1.74145
110 1.72559
120 1.70589
130 1.64319
140 1.62724
150 1.67113
160 1.62212
170 1.60801
180 1.60023
190 1.52463
200 1.58642
210 1.5002
220 1.51347
230 1.45311
240 1.42719
250 1.48299
260 1.45976
270 1.41926
280 1.4058
290 1.38382
300 1.34065
310 1.36143
320 1.37819
330 1.37357
340 1.35521
350 1.34208
360 1.33518
370 1.33787
380 1.3352
390 1.31383
EOD
$d13 << EOD
10 2.49465
20 2.15222
30 2.06967
40 2.01946
50 1.93073
60 1.88975
70 1.84226
80 1.82283
90 1.80335
100 1.71847
110 1.73095
120 1.70462
130 1.6507
140 1.64232
150 1.64488
160 1.62922
170 1.62224
180 1.63247
190 1.55808
200 1.59961
210 1.51387
220 1.52616
230 1.49368
240 1.47895
250 1.497
260 1.50076
270 1.46331
280 1.4343
290 1.42212
300 1.38431
310 1.40548
320 1.44253
330 1.42666
340 1.40003
350 1.38097
360 1.37073
370 1.40464
380 1.39372
390 1.36195
EOD
$d14 << EOD
10 2.59399
20 2.36157
30 2.25239
40 2.08264
50 1.9786
60 1.92533
70 1.90353
80 1.92503
90 1.90389
100 1.85018
110 1.82534
120 1.79689
130 1.74133
140 1.76061
150 1.79566
160 1.79516
170 1.74441
180 1.75044
190 1.72821
200 1.79799
210 1.72831
220 1.75047
230 1.70098
240 1.70122
250 1.70867
260 1.73137
270 1.72228
280 1.71812
290 1.6997
300 1.67138
310 1.69786
320 1.7682
330 1.73475
340 1.69475
350 1.701
360 1.69046
370 1.72039
380 1.7045
390 1.66519
EOD
$d15 << EOD
10 2.47385
20 2.14113
30 2.0763
40 1.97367
50 1.90501
60 1.848
70 1.8545
80 1.78596
90 1.76327
100 1.69865
110 1.70169
120 1.70298
130 1.65413
140 1.59668
150 1.64811
160 1.63394
170 1.57925
180 1.59377
190 1.53741
200 1.57869
210 1.49699
220 1.51162
230 1.44435
240 1.43437
250 1.43921
260 1.44531
270 1.41715
280 1.39254
290 1.36573
300 1.35864
310 1.35301
320 1.38093
330 1.37211
340 1.34841
350 1.32841
360 1.34287
370 1.35131
380 1.31989
390 1.32251
EOD
$d16 << EOD
25 0.949291
50 0.968699
75 0.972456
100 0.979351
125 0.97769
150 0.980256
175 0.981603
200 0.983757
225 0.985825
250 0.985973
275 0.991068
300 0.991991
325 0.992822
350 0.992739
375 0.994835
EOD
$d17 << EOD
25 0.948491
50 0.966513
75 0.965641
100 0.966417
125 0.968356
150 0.970154
175 0.972048
200 0.976991
225 0.978044
250 0.980646
275 0.986085
300 0.98967
325 0.991906
350 0.993732
375 0.994698
EOD
$d18 << EOD
25 0.826591
50 0.893007
75 0.90079
100 0.897737
125 0.902339
150 0.918276
175 0.910103
200 0.924228
225 0.941068
250 0.950584
275 0.963999
300 0.975299
325 0.982558
350 0.990428
375 0.994106
EOD
$d19 << EOD
25 0.529385
50 0.649478
75 0.654324
100 0.627286
125 0.683972
150 0.718124
175 0.738253
200 0.743768
225 0.815075
250 0.81259
275 0.867867
300 0.917224
325 0.946139
350 0.975766
375 0.991858
EOD
$d20 << EOD
25 0.154922
50 0.279895
75 0.246896
100 0.246856
125 0.266729
150 0.272546
175 0.296897
200 0.319829
225 0.381534
250 0.458537
275 0.550139
300 0.681992
325 0.783431
350 0.915519
375 0.981193
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'resnet20' . '.' . type
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
set xtics auto norotate
set ytics auto
set title 'test accuracy after one epoch' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'accuracy' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.3333333333333333,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'share of parameter updates lost' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'underflow.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.6666666666666666,0.5
set size 0.3333333333333333,0.5
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0,0
set size 0.3333333333333333,0.5
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

plot $d12 using 1:2 with lines lw 2 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2 with lines lw 2 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2 with lines lw 2 lc '#009E73' title 'rn, sticky' noenhanced, $d15 using 1:2 with lines lw 2 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,0.5
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

plot $d16 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d17 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d18 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d19 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d20 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
unset multiplot
set output
