set encoding utf8
$d0 << EOD
0 0 15790837 -0.017
0 1 15850969 0.087
0 2 14983574 0.284
1 0 16053750 -0.006
1 1 15265266 -0.034
1 2 16185079 -0.002
2 0 15987958 -0.010
2 1 15528179 -0.025
2 2 15983584 0.067
3 0 16250871 0.001
3 1 16250871 0
3 2 15917277 0.077
4 0 16250871 -0.001
4 1 15659508 -0.020
4 2 15917792 0.068
EOD
$d1 << EOD
0 0 16116971 0.036
0 1 15316654 0.216
0 2 14649466 0.368
1 0 15922421 -0.012
1 1 16185335 -0.001
1 2 15850713 0.088
2 0 15987958 -0.010
2 1 15265266 -0.034
2 2 15983584 0.067
3 0 16119542 -0.004
3 1 16250871 -0.001
3 2 16050406 0.049
4 0 16250870 0.001
4 1 16250871 0.001
4 2 16051178 0.039
EOD
$d2 << EOD
0 0 14049357 10.4
0 1 14049357 1.97
0 2 14049357 1.93
1 0 14249307 0.458
1 1 14316130 0.439
1 2 14516594 0.390
2 0 15850456 0.091
2 1 15983584 0.066
2 2 15784148 0.102
3 0 16250614 0.004
3 1 15528179 -0.025
3 2 15784148 0.103
4 0 16250871 0
4 1 15659508 -0.021
4 2 16185335 -0.002
EOD
$d3 << EOD
0 0 15983584 0.067
0 1 15450297 0.183
0 2 14716544 0.349
1 0 16185079 -0.002
1 1 16117485 0.031
1 2 16050663 0.047
2 0 15922421 -0.011
2 1 15330802 -0.034
2 2 16183793 0.019
3 0 16185079 -0.003
3 1 16250357 0.005
3 2 16117227 0.034
4 0 16250871 -0.001
4 1 15659508 -0.021
4 2 15784148 0.104
EOD
$d4 << EOD
0 0 15856629 -0.014
0 1 15917020 0.079
0 2 14582388 0.386
1 0 15593716 -0.023
1 1 14805231 -0.052
1 2 16250614 0.003
2 0 15790837 -0.016
2 1 14608110 -0.058
2 2 16250357 0.005
3 0 15725300 -0.018
3 1 15002352 -0.045
3 2 15659508 -0.021
4 0 15593716 -0.023
4 1 14805231 -0.052
4 2 16250871 -0.001
EOD
$d5 << EOD
0 0 15983584 0.066
0 1 15250089 0.230
0 2 14382951 0.424
1 0 15462387 -0.027
1 1 16184049 0.017
1 2 15916763 0.082
2 0 16184820 0.008
2 1 15659508 -0.021
2 2 16250614 0.003
3 0 15725300 -0.018
3 1 14542318 -0.061
3 2 16117742 0.026
4 0 15856629 -0.015
4 1 15002352 -0.043
4 2 15791093 -0.015
EOD
$d6 << EOD
0 0 14049357 13.2
0 1 14049357 6.09
0 2 14049357 1.61
1 0 14382437 0.429
1 1 14449259 0.413
1 2 14716288 0.350
2 0 15851226 0.084
2 1 15983842 0.062
2 2 15850199 0.094
3 0 16119286 -0.006
3 1 14936560 -0.048
3 2 15199473 -0.038
4 0 15659508 -0.022
4 1 15199473 -0.037
4 2 16250614 0.003
EOD
$d7 << EOD
0 0 15983842 0.062
0 1 14049357 0.506
0 2 14049357 0.598
1 0 14805231 -0.051
1 1 16250871 -0.001
1 2 15850969 0.088
2 0 15396594 -0.032
2 1 15068145 -0.042
2 2 15790836 -0.017
3 0 15593715 -0.024
3 1 14279661 -0.070
3 2 15856629 -0.015
4 0 15725044 -0.019
4 1 14936560 -0.047
4 2 16250871 0.001
EOD
$d8 << EOD
0 0 14249822 0.949
0 1 14382437 0.929
0 2 14449772 0.908
1 0 14383465 0.918
1 1 14583416 0.873
1 2 14849417 0.825
2 0 15116703 0.760
2 1 15583426 0.656
2 2 15917534 0.573
3 0 14739695 0.447
3 1 11651295 0.337
3 2 9876949 0.273
4 0 7051462 0.173
4 1 5408701 0.115
4 2 4554681 0.085
EOD
$d9 << EOD
0 0 11716831 0.339
0 1 10928347 0.312
0 2 10928347 0.310
1 0 11191260 0.321
1 1 9811413 0.272
1 2 9482707 0.259
2 0 10205655 0.286
2 1 8825551 0.235
2 2 7774410 0.199
3 0 11651038 0.335
3 1 8628430 0.228
3 2 6591428 0.157
4 0 6065857 0.138
4 1 4488888 0.082
4 2 3700148 0.053
EOD
$d10 << EOD
0 0 14583672 0.872
0 1 14582902 0.880
0 2 14582388 0.886
1 0 14182486 0.973
1 1 14315872 0.945
1 2 14516080 0.898
2 0 14782595 0.840
2 1 15250347 0.725
2 2 15650248 0.637
3 0 16119542 0.495
3 1 12505315 0.366
3 2 10139863 0.283
4 0 7248583 0.180
4 1 5474493 0.116
4 2 4554681 0.085
EOD
$d11 << EOD
0 0 14316643 0.934
0 1 14449002 0.916
0 2 14516337 0.894
1 0 14515823 0.901
1 1 14716030 0.855
1 2 14915982 0.810
2 0 15117218 0.751
2 1 15584197 0.647
2 2 15983584 0.567
3 0 14673903 0.444
3 1 11585502 0.334
3 2 9745620 0.269
4 0 7051462 0.172
4 1 5408701 0.114
4 2 4620217 0.086
EOD
$d12 << EOD
4 -0.0165419 -0.0165419 -0.0165419
6 -0.00639945 -0.00639945 -0.00639945
8 -0.00951136 -0.00951136 -0.00951136
10 0.000759269 0.000759269 0.000759269
12 -0.000636308 -0.000636308 -0.000636308
EOD
$d13 << EOD
4 0.0356452 0.0356452 0.0356452
6 -0.0118187 -0.0118187 -0.0118187
8 -0.00988829 -0.00988829 -0.00988829
10 -0.00414125 -0.00414125 -0.00414125
12 0.00147927 0.00147927 0.00147927
EOD
$d14 << EOD
4 10.3811 10.3811 10.3811
6 0.458426 0.458426 0.458426
8 0.0912707 0.0912707 0.0912707
10 0.00417523 0.00417523 0.00417523
12 0.000338627 0.000338627 0.000338627
EOD
$d15 << EOD
4 0.0666736 0.0666736 0.0666736
6 -0.00186577 -0.00186577 -0.00186577
8 -0.0112994 -0.0112994 -0.0112994
10 -0.002616 -0.002616 -0.002616
12 -0.0005724 -0.0005724 -0.0005724
EOD
$d16 << EOD
4 0.0871514 0.0871514 0.0871514
6 -0.0343756 -0.0343756 -0.0343756
8 -0.0251929 -0.0251929 -0.0251929
10 0.000394226 0.000394226 0.000394226
12 -0.0204656 -0.0204656 -0.0204656
EOD
$d17 << EOD
4 0.216045 0.216045 0.216045
6 -0.00119031 -0.00119031 -0.00119031
8 -0.0340808 -0.0340808 -0.0340808
10 -0.000606092 -0.000606092 -0.000606092
12 0.000879878 0.000879878 0.000879878
EOD
$d18 << EOD
4 1.97184 1.97184 1.97184
6 0.43895 0.43895 0.43895
8 0.0664119 0.0664119 0.0664119
10 -0.0245515 -0.0245515 -0.0245515
12 -0.0213431 -0.0213431 -0.0213431
EOD
$d19 << EOD
4 0.182913 0.182913 0.182913
6 0.0307517 0.0307517 0.0307517
8 -0.0335605 -0.0335605 -0.0335605
10 0.00544222 0.00544222 0.00544222
12 -0.0214939 -0.0214939 -0.0214939
EOD
$d20 << EOD
4 0.283849 0.283849 0.283849
6 -0.00247861 -0.00247861 -0.00247861
8 0.0673372 0.0673372 0.0673372
10 0.0770993 0.0770993 0.0770993
12 0.068229 0.068229 0.068229
EOD
$d21 << EOD
4 0.368301 0.368301 0.368301
6 0.0879148 0.0879148 0.0879148
8 0.0666694 0.0666694 0.0666694
10 0.0485659 0.0485659 0.0485659
12 0.0387564 0.0387564 0.0387564
EOD
$d22 << EOD
4 1.92543 1.92543 1.92543
6 0.389993 0.389993 0.389993
8 0.102369 0.102369 0.102369
10 0.103065 0.103065 0.103065
12 -0.00162993 -0.00162993 -0.00162993
EOD
$d23 << EOD
4 0.348662 0.348662 0.348662
6 0.0465122 0.0465122 0.0465122
8 0.0191103 0.0191103 0.0191103
10 0.0339361 0.0339361 0.0339361
12 0.103761 0.103761 0.103761
EOD
$d24 << EOD
4 0.00899029 0.00899029 0.00899029
6 0.0540479 0.0540479 0.0540479
8 0.23105 0.23105 0.23105
10 0.93079 0.93079 0.93079
12 3.73186 3.73186 3.73186
EOD
$d25 << EOD
4 0.0111436 0.0111436 0.0111436
6 0.0588685 0.0588685 0.0588685
8 0.24742 0.24742 0.24742
10 0.997726 0.997726 0.997726
12 3.99453 3.99453 3.99453
EOD
$d26 << EOD
4 0.00421464 0.00421464 0.00421464
6 0.0893177 0.0893177 0.0893177
8 0.245743 0.245743 0.245743
10 0.936782 0.936782 0.936782
12 3.73238 3.73238 3.73238
EOD
$d27 << EOD
4 0.0374379 0.0374379 0.0374379
6 0.0739584 0.0739584 0.0739584
8 0.241635 0.241635 0.241635
10 0.936097 0.936097 0.936097
12 3.73159 3.73159 3.73159
EOD
$d28 << EOD
4 0.0146975 0.0146975 0.0146975
6 0.0902321 0.0902321 0.0902321
8 0.382595 0.382595 0.382595
10 1.57592 1.57592 1.57592
12 6.29589 6.29589 6.29589
EOD
$d29 << EOD
4 0.0183233 0.0183233 0.0183233
6 0.0981066 0.0981066 0.0981066
8 0.42052 0.42052 0.42052
10 1.69786 1.69786 1.69786
12 6.78421 6.78421 6.78421
EOD
$d30 << EOD
4 0.00860166 0.00860166 0.00860166
6 0.124414 0.124414 0.124414
8 0.397636 0.397636 0.397636
10 1.56832 1.56832 1.56832
12 6.35035 6.35035 6.35035
EOD
$d31 << EOD
4 0.0437687 0.0437687 0.0437687
6 0.111195 0.111195 0.111195
8 0.395594 0.395594 0.395594
10 1.58658 1.58658 1.58658
12 6.32952 6.32952 6.32952
EOD
$d32 << EOD
4 0.0209121 0.0209121 0.0209121
6 0.133371 0.133371 0.133371
8 0.567587 0.567587 0.567587
10 2.23902 2.23902 2.23902
12 8.88768 8.88768 8.88768
EOD
$d33 << EOD
4 0.0254054 0.0254054 0.0254054
6 0.14317 0.14317 0.14317
8 0.585185 0.585185 0.585185
10 2.42221 2.42221 2.42221
12 9.48043 9.48043 9.48043
EOD
$d34 << EOD
4 0.0122609 0.0122609 0.0122609
6 0.161267 0.161267 0.161267
8 0.575839 0.575839 0.575839
10 2.27631 2.27631 2.27631
12 9.00842 9.00842 9.00842
EOD
$d35 << EOD
4 0.0504284 0.0504284 0.0504284
6 0.150702 0.150702 0.150702
8 0.578489 0.578489 0.578489
10 2.23583 2.23583 2.23583
12 8.91147 8.91147 8.91147
EOD
$d36 << EOD
10 4.28519
20 3.8582
30 3.35623
40 3.01618
50 2.83502
60 2.69401
70 2.647
80 2.63854
90 2.57924
100 2.57015
110 2.57144
120 2.52722
130 2.50491
140 2.51311
150 2.47393
160 2.4538
170 2.45599
180 2.44911
190 2.42951
200 2.40867
210 2.38259
220 2.38573
230 2.37112
240 2.31331
250 2.25795
260 2.24631
270 2.22899
280 2.16257
290 2.23916
300 2.17555
310 2.15195
320 2.12593
330 2.08529
340 2.06353
350 2.07838
360 2.07105
370 2.0369
380 1.99484
390 2.02928
400 2.00495
410 1.9954
420 1.95818
430 1.9203
440 1.9392
450 1.95701
460 1.90452
470 1.99677
480 1.91809
490 1.89907
500 1.85834
510 1.87376
520 1.85517
530 1.93155
540 1.84256
550 1.86314
560 1.8681
570 1.82966
580 1.8521
590 1.83333
600 1.87188
EOD
$d37 << EOD
10 4.28479
20 3.86049
30 3.36676
40 3.02403
50 2.86049
60 2.71052
70 2.65628
80 2.64848
90 2.59079
100 2.57281
110 2.58691
120 2.5448
130 2.51606
140 2.51663
150 2.47877
160 2.46267
170 2.45835
180 2.45432
190 2.44078
200 2.42367
210 2.39605
220 2.39899
230 2.3869
240 2.33758
250 2.27597
260 2.26263
270 2.24928
280 2.18443
290 2.26608
300 2.2017
310 2.15218
320 2.13154
330 2.0987
340 2.07105
350 2.09278
360 2.09161
370 2.05686
380 1.99291
390 2.02989
400 2.02575
410 1.99581
420 1.96518
430 1.94115
440 1.94116
450 1.95717
460 1.92728
470 2.00579
480 1.9204
490 1.92334
500 1.88037
510 1.90128
520 1.88135
530 1.95729
540 1.87051
550 1.87764
560 1.89881
570 1.86039
580 1.89429
590 1.87209
600 1.90894
EOD
$d38 << EOD
10 4.40643
20 4.1159
30 3.44646
40 2.98909
50 2.80944
60 2.68978
70 2.65834
80 2.66631
90 2.60871
100 2.60206
110 2.62638
120 2.58098
130 2.56169
140 2.56292
150 2.53032
160 2.51579
170 2.51446
180 2.51589
190 2.50799
200 2.50837
210 2.49303
220 2.5008
230 2.51921
240 2.4787
250 2.45536
260 2.44784
270 2.47562
280 2.43164
290 2.49368
300 2.47232
310 2.43991
320 2.44628
330 2.43158
340 2.41974
350 2.45404
360 2.44702
370 2.44495
380 2.3996
390 2.44988
400 2.43376
410 2.43934
420 2.41156
430 2.42746
440 2.43352
450 2.43697
460 2.41551
470 2.49768
480 2.42904
490 2.45345
500 2.41979
510 2.4391
520 2.43796
530 2.47495
540 2.42829
550 2.42613
560 2.43749
570 2.4301
580 2.45095
590 2.4422
600 2.46649
EOD
$d39 << EOD
10 4.28469
20 3.85607
30 3.36556
40 3.02248
50 2.84556
60 2.71384
70 2.65708
80 2.65364
90 2.59779
100 2.57727
110 2.58562
120 2.54614
130 2.52034
140 2.5226
150 2.48903
160 2.46776
170 2.47224
180 2.46166
190 2.45416
200 2.44181
210 2.42103
220 2.41205
230 2.41907
240 2.36337
250 2.30834
260 2.28562
270 2.27756
280 2.21804
290 2.28265
300 2.22984
310 2.20001
320 2.18062
330 2.13842
340 2.11963
350 2.12557
360 2.13126
370 2.08817
380 2.03216
390 2.06978
400 2.04232
410 2.02377
420 2.00739
430 1.98187
440 1.97204
450 1.98539
460 1.95771
470 2.03337
480 1.9504
490 1.95117
500 1.90416
510 1.92526
520 1.91411
530 1.97627
540 1.89975
550 1.89602
560 1.91936
570 1.86639
580 1.90848
590 1.88016
600 1.92447
EOD
$d40 << EOD
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
$d41 << EOD
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
$d42 << EOD
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
$d43 << EOD
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
$d44 << EOD
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
$d45 << EOD
25 0.0482855
50 0.0590813
75 0.0346577
100 0.0246315
125 0.0215258
150 0.0187511
175 0.0182095
200 0.016226
225 0.0150147
250 0.0134862
275 0.0127249
300 0.0121777
325 0.0100512
350 0.00880229
375 0.00794671
400 0.00611628
425 0.0056669
450 0.00431193
475 0.00376699
500 0.00299459
525 0.00258992
550 0.00223192
575 0.00176206
600 0.00172693
EOD
$d46 << EOD
25 0.246418
50 0.285948
75 0.210404
100 0.171033
125 0.135289
150 0.129935
175 0.121624
200 0.117725
225 0.0982132
250 0.0880405
275 0.0856644
300 0.0764728
325 0.0555545
350 0.0523955
375 0.04987
400 0.0456451
425 0.0414305
450 0.0369034
475 0.0295113
500 0.0244142
525 0.0201796
550 0.015176
575 0.0143105
600 0.0134111
EOD
$d47 << EOD
25 0.99069
50 1.14074
75 0.835305
100 0.700637
125 0.611222
150 0.548015
175 0.509104
200 0.476181
225 0.434734
250 0.42374
275 0.303689
300 0.323997
325 0.282666
350 0.261174
375 0.260311
400 0.206252
425 0.182413
450 0.156519
475 0.12851
500 0.108522
525 0.0913626
550 0.0763946
575 0.0670591
600 0.0630532
EOD
$d48 << EOD
25 4.09815
50 4.30722
75 3.86466
100 2.91593
125 2.45539
150 2.1516
175 2.18803
200 2.03268
225 1.81882
250 1.70828
275 1.4585
300 1.37792
325 1.0254
350 1.075
375 1.04412
400 0.877812
425 0.694074
450 0.610923
475 0.510418
500 0.408608
525 0.357087
550 0.313094
575 0.290786
600 0.23763
EOD
$d49 << EOD
25 16.4281
50 17.1352
75 14.4167
100 11.4372
125 9.60813
150 9.15587
175 8.92614
200 8.14881
225 7.44173
250 6.51316
275 6.21233
300 5.51972
325 4.7894
350 4.13079
375 4.12439
400 3.38311
425 2.55672
450 2.52327
475 2.00695
500 1.7356
525 1.50777
550 1.25066
575 1.18116
600 0.9685
EOD
$d50 << EOD
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
$d51 << EOD
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
$d52 << EOD
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
$d53 << EOD
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
$d54 << EOD
25 0.342246
50 0.220601
75 0.432718
100 0.498979
125 0.477223
150 0.537659
175 0.495889
200 0.535753
225 0.551725
250 0.550249
275 0.552669
300 0.584205
325 0.566365
350 0.574843
375 0.537403
400 0.571826
425 0.552244
450 0.547628
475 0.535553
500 0.57055
525 0.508533
550 0.568239
575 0.537367
600 0.527622
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'text' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,3840 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,3840 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0.875
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d0 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.875
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d1 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.875
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d2 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d2 using 1:2:4 with labels notitle
set origin 0,0.75
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: sr, sticky, feedback' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d3 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d3 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.75
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 4 bits: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d4 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d4 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.75
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 4 bits: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d5 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d5 using 1:2:4 with labels notitle
set origin 0,0.625
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 4 bits: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d6 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d6 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.625
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 4 bits: sr, sticky, feedback' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d7 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d7 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.625
set size 0.3333333333333333,0.125
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
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d8 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d8 using 1:2:4 with labels notitle
set origin 0,0.5
set size 0.3333333333333333,0.125
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
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d9 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d9 using 1:2:4 with labels notitle
set origin 0.3333333333333333,0.5
set size 0.3333333333333333,0.125
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
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d10 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d10 using 1:2:4 with labels notitle
set origin 0.6666666666666666,0.5
set size 0.3333333333333333,0.125
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
set ytics ('0.001' 0, '0.003' 1, '0.01' 2)

plot $d11 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d11 using 1:2:4 with labels notitle
set origin 0,0.375
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set yrange [-0.1:0.5]

plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.3333333333333333,0.375
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set yrange [-0.1:0.5]

plot $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d19 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.6666666666666666,0.375
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'loss above fp32, 8 bits: 0.01' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set yrange [-0.1:0.5]

plot $d20 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d21 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d22 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d23 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0,0.25
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters: 0.001' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d24 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d25 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d26 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d27 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.3333333333333333,0.25
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters: 0.003' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d28 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d29 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d30 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d31 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.6666666666666666,0.25
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters: 0.01' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set format y '%g'

plot $d32 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d33 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d34 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d35 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0,0.125
set size 0.3333333333333333,0.125
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

plot $d36 using 1:2 with lines lw 2 lc '#0072B2' title 'sr, sticky' noenhanced, $d37 using 1:2 with lines lw 2 lc '#D55E00' title 'sr, moving' noenhanced, $d38 using 1:2 with lines lw 2 lc '#009E73' title 'rn, sticky' noenhanced, $d39 using 1:2 with lines lw 2 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
set origin 0.3333333333333333,0.125
set size 0.3333333333333333,0.125
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

plot $d40 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d41 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d42 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d43 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d44 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
set origin 0.6666666666666666,0.125
set size 0.3333333333333333,0.125
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

plot $d45 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d46 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d47 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d48 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d49 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
set origin 0,0
set size 0.3333333333333333,0.125
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

plot $d50 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d51 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,0.125
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

plot $d52 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d53 using 1:2 with lines lw 2 lc '#D55E00' title '8' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,0.125
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'changes of the variance lost' noenhanced
set xlabel 'step' noenhanced
set ylabel 'underflow/variance' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d54 using 1:2 with lines lw 2 lc '#0072B2' title 'sqrt08' noenhanced
unset multiplot
set output
