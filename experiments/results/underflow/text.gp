$d0 << EOD
0 0 -0.0165419 -0.017
0 1 0.0871514 0.087
0 2 0.283849 0.284
1 0 -0.00639945 -0.006
1 1 -0.0343756 -0.034
1 2 -0.00247861 -0.002
2 0 -0.00951136 -0.010
2 1 -0.0251929 -0.025
2 2 0.0673372 0.067
3 0 0.000759269 0.001
3 1 0.000394226 0
3 2 0.0770993 0.077
4 0 -0.000636308 -0.001
4 1 -0.0204656 -0.020
4 2 0.068229 0.068
EOD
$d1 << EOD
0 0 0.0356452 0.036
0 1 0.216045 0.216
0 2 0.368301 0.368
1 0 -0.0118187 -0.012
1 1 -0.00119031 -0.001
1 2 0.0879148 0.088
2 0 -0.00988829 -0.010
2 1 -0.0340808 -0.034
2 2 0.0666694 0.067
3 0 -0.00414125 -0.004
3 1 -0.000606092 -0.001
3 2 0.0485659 0.049
4 0 0.00147927 0.001
4 1 0.000879878 0.001
4 2 0.0387564 0.039
EOD
$d2 << EOD
0 0 10.3811 10.4
0 1 1.97184 1.97
0 2 1.92543 1.93
1 0 0.458426 0.458
1 1 0.43895 0.439
1 2 0.389993 0.390
2 0 0.0912707 0.091
2 1 0.0664119 0.066
2 2 0.102369 0.102
3 0 0.00417523 0.004
3 1 -0.0245515 -0.025
3 2 0.103065 0.103
4 0 0.000338627 0
4 1 -0.0213431 -0.021
4 2 -0.00162993 -0.002
EOD
$d3 << EOD
0 0 -0.0143654 -0.014
0 1 0.0790361 0.079
0 2 0.38619 0.386
1 0 -0.0226005 -0.023
1 1 -0.0517895 -0.052
1 2 0.0027876 0.003
2 0 -0.0158156 -0.016
2 1 -0.0580859 -0.058
2 2 0.00519658 0.005
3 0 -0.0178826 -0.018
3 1 -0.0451274 -0.045
3 2 -0.0205617 -0.021
4 0 -0.0227888 -0.023
4 1 -0.0519828 -0.052
4 2 -0.000996716 -0.001
EOD
$d4 << EOD
0 0 0.0664194 0.066
0 1 0.229822 0.230
0 2 0.424327 0.424
1 0 -0.0270161 -0.027
1 1 0.016677 0.017
1 2 0.0815759 0.082
2 0 0.00791369 0.008
2 1 -0.020547 -0.021
2 2 0.00307553 0.003
3 0 -0.018149 -0.018
3 1 -0.0605239 -0.061
3 2 0.0255022 0.026
4 0 -0.0148655 -0.015
4 1 -0.0433584 -0.043
4 2 -0.0152172 -0.015
EOD
$d5 << EOD
0 0 13.1735 13.2
0 1 6.09354 6.09
0 2 1.60866 1.61
1 0 0.429162 0.429
1 1 0.412842 0.413
1 2 0.349952 0.350
2 0 0.0843957 0.084
2 1 0.0618081 0.062
2 2 0.0943752 0.094
3 0 -0.00568556 -0.006
3 1 -0.0475457 -0.048
3 2 -0.0384438 -0.038
4 0 -0.0220806 -0.022
4 1 -0.0369308 -0.037
4 2 0.00319897 0.003
EOD
$d6 << EOD
0 0 0.949321 0.949
0 1 0.929375 0.929
0 2 0.908182 0.908
1 0 0.917509 0.918
1 1 0.873353 0.873
1 2 0.824648 0.825
2 0 0.759902 0.760
2 1 0.656325 0.656
2 2 0.573144 0.573
3 0 0.447252 0.447
3 1 0.337322 0.337
3 2 0.272518 0.273
4 0 0.17271 0.173
4 1 0.114814 0.115
4 2 0.0850022 0.085
EOD
$d7 << EOD
0 0 0.338577 0.339
0 1 0.311621 0.312
0 2 0.310086 0.310
1 0 0.320775 0.321
1 1 0.271702 0.272
1 2 0.259467 0.259
2 0 0.285919 0.286
2 1 0.234988 0.235
2 2 0.198509 0.199
3 0 0.335392 0.335
3 1 0.228127 0.228
3 2 0.156714 0.157
4 0 0.137882 0.138
4 1 0.0822836 0.082
4 2 0.0527414 0.053
EOD
$d8 << EOD
0 0 0.872496 0.872
0 1 0.880228 0.880
0 2 0.886196 0.886
1 0 0.973093 0.973
1 1 0.944619 0.945
1 2 0.89827 0.898
2 0 0.839737 0.840
2 1 0.724726 0.725
2 2 0.637481 0.637
3 0 0.494901 0.495
3 1 0.365797 0.366
3 2 0.28345 0.283
4 0 0.180359 0.180
4 1 0.116321 0.116
4 2 0.0847106 0.085
EOD
$d9 << EOD
4 -0.0165419 -0.0165419 -0.0165419
6 -0.00639945 -0.00639945 -0.00639945
8 -0.00951136 -0.00951136 -0.00951136
10 0.000759269 0.000759269 0.000759269
12 -0.000636308 -0.000636308 -0.000636308
EOD
$d10 << EOD
4 0.0356452 0.0356452 0.0356452
6 -0.0118187 -0.0118187 -0.0118187
8 -0.00988829 -0.00988829 -0.00988829
10 -0.00414125 -0.00414125 -0.00414125
12 0.00147927 0.00147927 0.00147927
EOD
$d11 << EOD
4 10.3811 10.3811 10.3811
6 0.458426 0.458426 0.458426
8 0.0912707 0.0912707 0.0912707
10 0.00417523 0.00417523 0.00417523
12 0.000338627 0.000338627 0.000338627
EOD
$d12 << EOD
4 0.0871514 0.0871514 0.0871514
6 -0.0343756 -0.0343756 -0.0343756
8 -0.0251929 -0.0251929 -0.0251929
10 0.000394226 0.000394226 0.000394226
12 -0.0204656 -0.0204656 -0.0204656
EOD
$d13 << EOD
4 0.216045 0.216045 0.216045
6 -0.00119031 -0.00119031 -0.00119031
8 -0.0340808 -0.0340808 -0.0340808
10 -0.000606092 -0.000606092 -0.000606092
12 0.000879878 0.000879878 0.000879878
EOD
$d14 << EOD
4 1.97184 1.97184 1.97184
6 0.43895 0.43895 0.43895
8 0.0664119 0.0664119 0.0664119
10 -0.0245515 -0.0245515 -0.0245515
12 -0.0213431 -0.0213431 -0.0213431
EOD
$d15 << EOD
4 0.283849 0.283849 0.283849
6 -0.00247861 -0.00247861 -0.00247861
8 0.0673372 0.0673372 0.0673372
10 0.0770993 0.0770993 0.0770993
12 0.068229 0.068229 0.068229
EOD
$d16 << EOD
4 0.368301 0.368301 0.368301
6 0.0879148 0.0879148 0.0879148
8 0.0666694 0.0666694 0.0666694
10 0.0485659 0.0485659 0.0485659
12 0.0387564 0.0387564 0.0387564
EOD
$d17 << EOD
4 1.92543 1.92543 1.92543
6 0.389993 0.389993 0.389993
8 0.102369 0.102369 0.102369
10 0.103065 0.103065 0.103065
12 -0.00162993 -0.00162993 -0.00162993
EOD
$d18 << EOD
4 0.00899029 0.00899029 0.00899029
6 0.0540479 0.0540479 0.0540479
8 0.23105 0.23105 0.23105
10 0.93079 0.93079 0.93079
12 3.73186 3.73186 3.73186
EOD
$d19 << EOD
4 0.0111436 0.0111436 0.0111436
6 0.0588685 0.0588685 0.0588685
8 0.24742 0.24742 0.24742
10 0.997726 0.997726 0.997726
12 3.99453 3.99453 3.99453
EOD
$d20 << EOD
4 0.00421464 0.00421464 0.00421464
6 0.0893177 0.0893177 0.0893177
8 0.245743 0.245743 0.245743
10 0.936782 0.936782 0.936782
12 3.73238 3.73238 3.73238
EOD
$d21 << EOD
4 0.0146975 0.0146975 0.0146975
6 0.0902321 0.0902321 0.0902321
8 0.382595 0.382595 0.382595
10 1.57592 1.57592 1.57592
12 6.29589 6.29589 6.29589
EOD
$d22 << EOD
4 0.0183233 0.0183233 0.0183233
6 0.0981066 0.0981066 0.0981066
8 0.42052 0.42052 0.42052
10 1.69786 1.69786 1.69786
12 6.78421 6.78421 6.78421
EOD
$d23 << EOD
4 0.00860166 0.00860166 0.00860166
6 0.124414 0.124414 0.124414
8 0.397636 0.397636 0.397636
10 1.56832 1.56832 1.56832
12 6.35035 6.35035 6.35035
EOD
$d24 << EOD
4 0.0209121 0.0209121 0.0209121
6 0.133371 0.133371 0.133371
8 0.567587 0.567587 0.567587
10 2.23902 2.23902 2.23902
12 8.88768 8.88768 8.88768
EOD
$d25 << EOD
4 0.0254054 0.0254054 0.0254054
6 0.14317 0.14317 0.14317
8 0.585185 0.585185 0.585185
10 2.42221 2.42221 2.42221
12 9.48043 9.48043 9.48043
EOD
$d26 << EOD
4 0.0122609 0.0122609 0.0122609
6 0.161267 0.161267 0.161267
8 0.575839 0.575839 0.575839
10 2.27631 2.27631 2.27631
12 9.00842 9.00842 9.00842
EOD
$d27 << EOD
25 0.795664
50 0.780126
75 0.843482
100 0.87746
125 0.902631
150 0.909603
175 0.920581
200 0.916231
225 0.930513
250 0.922859
275 0.943759
300 0.942794
325 0.948894
350 0.959868
375 0.9547
400 0.967508
425 0.963461
450 0.968583
475 0.971895
500 0.978571
525 0.970607
550 0.976928
575 0.979826
600 0.978572
EOD
$d28 << EOD
25 0.690524
50 0.636413
75 0.727757
100 0.776172
125 0.817248
150 0.814577
175 0.842662
200 0.839737
225 0.854416
250 0.870912
275 0.871677
300 0.88521
325 0.916539
350 0.91889
375 0.92601
400 0.927825
425 0.93675
450 0.942668
475 0.94791
500 0.954682
525 0.960459
550 0.966814
575 0.966442
600 0.96821
EOD
$d29 << EOD
25 0.290296
50 0.263246
75 0.351727
100 0.416008
125 0.469479
150 0.497037
175 0.523839
200 0.543361
225 0.576626
250 0.585783
275 0.678821
300 0.661762
325 0.705301
350 0.717551
375 0.723057
400 0.775669
425 0.7968
450 0.81982
475 0.852042
500 0.873384
525 0.891016
550 0.903841
575 0.916795
600 0.918563
EOD
$d30 << EOD
25 0.0715523
50 0.0785626
75 0.0848891
100 0.11759
125 0.144162
150 0.163534
175 0.163207
200 0.172796
225 0.196425
250 0.207083
275 0.240373
300 0.251194
325 0.325071
350 0.317271
375 0.325223
400 0.373788
425 0.439241
450 0.487169
475 0.543912
500 0.609787
525 0.648431
550 0.6852
575 0.698731
600 0.750563
EOD
$d31 << EOD
25 0.0176032
50 0.0192259
75 0.0228634
100 0.0318699
125 0.04012
150 0.0387529
175 0.0425995
200 0.0444137
225 0.0513601
250 0.057085
275 0.0640139
300 0.0684717
325 0.0799945
350 0.0943425
375 0.0961567
400 0.114197
425 0.144355
450 0.151096
475 0.189855
500 0.214684
525 0.242529
550 0.286786
575 0.297616
600 0.345549
EOD
$d32 << EOD
25 0.0030765
50 0.00353428
75 0.00377331
100 0.0028221
125 0.00388536
150 0.00569175
175 0.00525738
200 0.00632564
225 0.00382675
250 0.00457461
275 0.00595657
300 0.00457452
325 0.00586038
350 0.00383865
375 0.0021253
400 0.00459342
425 0.00673943
450 0.00466288
475 0.00242612
500 0.00219726
525 0.00992467
550 0.00866443
575 0.00467063
600 0.00552911
EOD
$d33 << EOD
25 0.000310012
50 0.000255321
75 0.000100327
100 0.000237099
125 0.000373968
150 0.000373958
175 0.000145976
200 0.000456163
225 9.12725e-06
250 0.000802971
275 0.00030123
300 0.00116803
325 0.000319407
350 0.000666448
375 0.000219062
400 0.000109609
425 0.000292176
450 0.000401757
475 0.000374166
500 0.000246479
525 0.000575321
550 0.000447301
575 0.000191739
600 8.2146e-05
EOD
$d34 << EOD
25 0.00276619
50 0.000777275
75 0.000869049
100 0.00142286
125 0.00116525
150 0.00113877
175 0.000212224
200 0.000443137
225 0.000185696
250 0.000663952
275 0.00032755
300 0.000763068
325 0.000692078
350 0.000654734
375 0.000282968
400 0.00027397
425 7.06215e-05
450 0
475 0.000538185
500 0
525 0.000494076
550 0.000123588
575 0.000308446
600 0
EOD
$d35 << EOD
25 0.000662825
50 0.000105992
75 7.0944e-05
100 0.000123728
125 0.000220694
150 0
175 0
200 5.31764e-05
225 3.53707e-05
250 5.31171e-05
275 0
300 7.98559e-05
325 8.8728e-06
350 3.53907e-05
375 3.53707e-05
400 2.6513e-05
425 8.82776e-06
450 1.77154e-05
475 0
500 6.17605e-05
525 3.52911e-05
550 4.41384e-05
575 1.76256e-05
600 8.8178e-06
EOD
set grid
set xlabel offset 0,0.6
set terminal png size 1680,2880
set output 'text.png'
set multiplot layout 6,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d0 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d1 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d2 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d2 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'the same, 4-bit momentum, accumulator: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d3 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d3 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'the same, 4-bit momentum, accumulator: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d4 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d4 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'the same, 4-bit momentum, accumulator: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d5 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d5 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'share of parameter updates lost: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [0:1]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d6 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d6 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'share of parameter updates lost: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [0:1]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d7 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d7 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'share of parameter updates lost: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [0:1]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d8 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d8 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: 0.01' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d20 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d21 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d22 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d23 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.01' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d24 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d25 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d26 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'parameter updates lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/parameter' noenhanced

set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d27 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d28 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d29 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d30 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d31 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'changes of the momentum lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/momentum' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d32 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d33 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'contributions to the accumulator lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/accumulator' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d34 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d35 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
unset multiplot
set terminal svg size 1680,2880 dynamic background 'white'
set output 'text.svg'
set multiplot layout 6,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d0 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d1 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d2 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d2 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'the same, 4-bit momentum, accumulator: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d3 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d3 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'the same, 4-bit momentum, accumulator: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d4 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d4 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'the same, 4-bit momentum, accumulator: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [-0.5:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d5 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d5 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'share of parameter updates lost: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [0:1]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d6 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d6 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'share of parameter updates lost: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [0:1]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d7 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d7 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'share of parameter updates lost: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)
set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#d6604d')
set cbrange [0:1]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d8 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d8 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'loss above fp32, 8-bit momentum, accumulator: 0.01' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d20 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d21 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d22 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d23 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.01' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d24 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d25 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d26 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'parameter updates lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/parameter' noenhanced

set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d27 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d28 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d29 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d30 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d31 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'changes of the momentum lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/momentum' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d32 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d33 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'contributions to the accumulator lost, sr sticky' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/accumulator' noenhanced

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d34 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d35 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
unset multiplot
