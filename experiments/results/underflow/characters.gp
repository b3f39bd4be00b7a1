$d0 << EOD
4 -0.0179527 -0.0179527 -0.0179527
6 -0.0195257 -0.0195257 -0.0195257
8 -0.000341803 -0.000341803 -0.000341803
10 0.000937846 0.000937846 0.000937846
12 -0.00292792 -0.00292792 -0.00292792
EOD
$d1 << EOD
4 0.0300212 0.0300212 0.0300212
6 0.0103601 0.0103601 0.0103601
8 0.00421147 0.00421147 0.00421147
10 -0.00219426 -0.00219426 -0.00219426
12 -0.00349111 -0.00349111 -0.00349111
EOD
$d2 << EOD
4 4.71147 4.71147 4.71147
6 0.188222 0.188222 0.188222
8 0.0511398 0.0511398 0.0511398
10 0.0041987 0.0041987 0.0041987
12 -0.00109596 -0.00109596 -0.00109596
EOD
$d3 << EOD
4 0.0248756 0.0248756 0.0248756
6 -0.00634039 -0.00634039 -0.00634039
8 0.0066479 0.0066479 0.0066479
10 -0.0020562 -0.0020562 -0.0020562
12 -0.00111264 -0.00111264 -0.00111264
EOD
$d4 << EOD
4 0.942196 0.942196 0.942196
6 0.893115 0.893115 0.893115
8 0.674301 0.674301 0.674301
10 0.328239 0.328239 0.328239
12 0.102206 0.102206 0.102206
EOD
$d5 << EOD
4 0.315929 0.315929 0.315929
6 0.2986 0.2986 0.2986
8 0.244542 0.244542 0.244542
10 0.209514 0.209514 0.209514
12 0.0688395 0.0688395 0.0688395
EOD
$d6 << EOD
4 0.873914 0.873914 0.873914
6 0.964186 0.964186 0.964186
8 0.755228 0.755228 0.755228
10 0.353443 0.353443 0.353443
12 0.103344 0.103344 0.103344
EOD
$d7 << EOD
4 0.93227 0.93227 0.93227
6 0.877197 0.877197 0.877197
8 0.665096 0.665096 0.665096
10 0.325912 0.325912 0.325912
12 0.101756 0.101756 0.101756
EOD
$d8 << EOD
4 0.0132964 0.0132964 0.0132964
6 0.0818626 0.0818626 0.0818626
8 0.346752 0.346752 0.346752
10 1.39805 1.39805 1.39805
12 5.62225 5.62225 5.62225
EOD
$d9 << EOD
4 0.0166129 0.0166129 0.0166129
6 0.0886121 0.0886121 0.0886121
8 0.378873 0.378873 0.378873
10 1.50243 1.50243 1.50243
12 6.03907 6.03907 6.03907
EOD
$d10 << EOD
4 0.00409958 0.00409958 0.00409958
6 0.120759 0.120759 0.120759
8 0.354079 0.354079 0.354079
10 1.40338 1.40338 1.40338
12 5.62948 5.62948 5.62948
EOD
$d11 << EOD
4 0.0416136 0.0416136 0.0416136
6 0.10057 0.10057 0.10057
8 0.358849 0.358849 0.358849
10 1.40523 1.40523 1.40523
12 5.62295 5.62295 5.62295
EOD
$d12 << EOD
10 3.9392
20 3.56037
30 3.20878
40 2.96204
50 2.79296
60 2.73362
70 2.65592
80 2.63866
90 2.60065
100 2.5798
110 2.54879
120 2.54426
130 2.56067
140 2.52175
150 2.51296
160 2.46847
170 2.48702
180 2.46891
190 2.50048
200 2.46605
210 2.46493
220 2.48493
230 2.44242
240 2.44799
250 2.39293
260 2.40806
270 2.37429
280 2.38244
290 2.35068
300 2.32657
310 2.33947
320 2.33209
330 2.32726
340 2.31386
350 2.2987
360 2.27562
370 2.25684
380 2.26762
390 2.26155
400 2.24313
410 2.26092
420 2.23862
430 2.24116
440 2.21294
450 2.22432
460 2.20085
470 2.20763
480 2.19849
490 2.2097
500 2.19933
EOD
$d13 << EOD
10 3.93886
20 3.56233
30 3.20826
40 2.96233
50 2.79123
60 2.73031
70 2.6521
80 2.64143
90 2.6049
100 2.58121
110 2.54743
120 2.54468
130 2.5599
140 2.52348
150 2.51105
160 2.46806
170 2.4947
180 2.46375
190 2.497
200 2.46911
210 2.47738
220 2.47585
230 2.44479
240 2.45605
250 2.40617
260 2.42045
270 2.39083
280 2.40816
290 2.37192
300 2.33761
310 2.35989
320 2.35461
330 2.34894
340 2.32843
350 2.32044
360 2.30404
370 2.27468
380 2.2908
390 2.28949
400 2.27317
410 2.28197
420 2.26392
430 2.26738
440 2.24189
450 2.25702
460 2.22874
470 2.23913
480 2.22306
490 2.24355
500 2.22731
EOD
$d14 << EOD
10 4.17195
20 3.96361
30 3.73908
40 3.60732
50 3.26756
60 2.977
70 2.80203
80 2.74455
90 2.69637
100 2.65154
110 2.61776
120 2.59968
130 2.59967
140 2.5614
150 2.56234
160 2.51388
170 2.5265
180 2.50877
190 2.53155
200 2.49981
210 2.50621
220 2.51375
230 2.48238
240 2.4805
250 2.44201
260 2.47246
270 2.43572
280 2.44978
290 2.44117
300 2.41351
310 2.44155
320 2.43787
330 2.44716
340 2.42101
350 2.42875
360 2.426
370 2.39393
380 2.41143
390 2.4261
400 2.41299
410 2.42155
420 2.43201
430 2.42729
440 2.42395
450 2.42507
460 2.42403
470 2.41543
480 2.42636
490 2.44259
500 2.41715
EOD
$d15 << EOD
10 3.93938
20 3.56187
30 3.21414
40 2.9689
50 2.79723
60 2.73728
70 2.65938
80 2.64657
90 2.60877
100 2.58502
110 2.55322
120 2.55036
130 2.55954
140 2.52026
150 2.51556
160 2.4655
170 2.48263
180 2.46038
190 2.49832
200 2.48114
210 2.47632
220 2.48524
230 2.44801
240 2.45611
250 2.403
260 2.42074
270 2.39067
280 2.39518
290 2.36933
300 2.33795
310 2.35078
320 2.34127
330 2.34469
340 2.32268
350 2.31603
360 2.30088
370 2.26908
380 2.28412
390 2.27449
400 2.26208
410 2.2732
420 2.25074
430 2.2592
440 2.22762
450 2.23708
460 2.21168
470 2.22
480 2.21378
490 2.22703
500 2.21484
EOD
$d16 << EOD
25 0.895343
50 0.88442
75 0.8923
100 0.882452
125 0.904084
150 0.915071
175 0.927531
200 0.931449
225 0.939773
250 0.950231
275 0.949591
300 0.957629
325 0.964488
350 0.967454
375 0.974614
400 0.977538
425 0.980614
450 0.981724
475 0.983064
500 0.984564
EOD
$d17 << EOD
25 0.855223
50 0.831459
75 0.810438
100 0.783036
125 0.80665
150 0.83658
175 0.856891
200 0.864481
225 0.868123
250 0.890407
275 0.904891
300 0.913555
325 0.924116
350 0.939014
375 0.941733
400 0.956423
425 0.962624
450 0.96929
475 0.972847
500 0.974532
EOD
$d18 << EOD
25 0.584921
50 0.511821
75 0.468825
100 0.427526
125 0.462412
150 0.514514
175 0.572424
200 0.574887
225 0.576071
250 0.629447
275 0.673592
300 0.71821
325 0.730412
350 0.784734
375 0.792357
400 0.843439
425 0.876928
450 0.901445
475 0.918731
500 0.92335
EOD
$d19 << EOD
25 0.205413
50 0.167846
75 0.145726
100 0.128843
125 0.145784
150 0.16886
175 0.183733
200 0.196516
225 0.200247
250 0.224315
275 0.2719
300 0.295621
325 0.312492
350 0.369563
375 0.401119
400 0.494646
425 0.578334
450 0.645416
475 0.706679
500 0.721739
EOD
$d20 << EOD
25 0.0532774
50 0.0432226
75 0.0373845
100 0.0330022
125 0.036451
150 0.0425213
175 0.0465059
200 0.0502895
225 0.0526193
250 0.0593936
275 0.0706275
300 0.0790548
325 0.0823978
350 0.102304
375 0.108875
400 0.149311
425 0.188546
450 0.229136
475 0.285794
500 0.293414
EOD
set grid
set xlabel offset 0,0.6
set terminal pngcairo font 'sans,11' size 1680,960
set output 'characters.png'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss above fp32' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
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
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y
set format y '%g'

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
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
set terminal svg size 1680,960 dynamic background 'white'
set output 'characters.svg'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss above fp32' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'test_loss_gap' noenhanced
set yrange [-0.1:0.5]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
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
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'update-to-step ratio of parameters' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y
set format y '%g'

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'sr, sticky, feedback' noenhanced
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
