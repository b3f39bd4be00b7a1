$d0 << EOD
0 0 41.4 41.4
0 1 70.75 70.8
1 0 47.1 47.1
1 1 68.9 68.9
2 0 47.3 47.3
2 1 74.6 74.6
3 0 47.6 47.6
3 1 72.45 72.5
4 0 48.15 48.1
4 1 72.55 72.5
EOD
$d1 << EOD
0 0 31.95 31.9
0 1 69.6 69.6
1 0 39.1 39.1
1 1 72.1 72.1
2 0 46.45 46.5
2 1 73.8 73.8
3 0 45.95 46.0
3 1 73.75 73.8
4 0 46.5 46.5
4 1 77.1 77.1
EOD
$d2 << EOD
0 0 11.3 11.3
0 1 13.8 13.8
1 0 13.65 13.7
1 1 21.8 21.8
2 0 17.75 17.8
2 1 37.7 37.7
3 0 32.8 32.8
3 1 71.75 71.8
4 0 47.3 47.3
4 1 75.05 75.0
EOD
$d3 << EOD
0 0 37.6 37.6
0 1 68.55 68.5
1 0 47.45 47.4
1 1 74.2 74.2
2 0 49.25 49.2
2 1 72.9 72.9
3 0 46.3 46.3
3 1 77.5 77.5
4 0 48.7 48.7
4 1 72.75 72.8
EOD
$d4 << EOD
0 0 32.1 32.1
0 1 68.45 68.5
1 0 44.1 44.1
1 1 74 74.0
2 0 44.5 44.5
2 1 77.15 77.1
3 0 44.25 44.2
3 1 76.05 76.0
4 0 46.15 46.2
4 1 72.5 72.5
EOD
$d5 << EOD
0 0 11.95 11.9
0 1 13.55 13.6
1 0 14.2 14.2
1 1 25.2 25.2
2 0 18.7 18.7
2 1 57.3 57.3
3 0 31.9 31.9
3 1 71.85 71.9
4 0 46.9 46.9
4 1 73.7 73.7
EOD
$d6 << EOD
0 0 0.986944 0.987
0 1 0.972277 0.972
1 0 0.983939 0.984
1 1 0.964224 0.964
2 0 0.960925 0.961
2 1 0.89097 0.891
3 0 0.873486 0.873
3 1 0.66848 0.668
4 0 0.622639 0.623
4 1 0.36745 0.367
EOD
$d7 << EOD
0 0 0.492257 0.492
0 1 0.427885 0.428
1 0 0.531501 0.532
1 1 0.468881 0.469
2 0 0.472549 0.473
2 1 0.395104 0.395
3 0 0.819393 0.819
3 1 0.566962 0.567
4 0 0.589163 0.589
4 1 0.333201 0.333
EOD
$d8 << EOD
0 0 0.783356 0.783
0 1 0.801552 0.802
1 0 0.993282 0.993
1 1 0.992124 0.992
2 0 0.990781 0.991
2 1 0.971306 0.971
3 0 0.957254 0.957
3 1 0.72999 0.730
4 0 0.676963 0.677
4 1 0.389631 0.390
EOD
$d9 << EOD
4 0.00168026 0.00168026 0.00168026
6 0.00817254 0.00817254 0.00817254
8 0.0330501 0.0330501 0.0330501
10 0.131475 0.131475 0.131475
12 0.535376 0.535376 0.535376
EOD
$d10 << EOD
4 0.00178826 0.00178826 0.00178826
6 0.00809085 0.00809085 0.00809085
8 0.034113 0.034113 0.034113
10 0.137666 0.137666 0.137666
12 0.553008 0.553008 0.553008
EOD
$d11 << EOD
4 0.00112487 0.00112487 0.00112487
6 0.00732743 0.00732743 0.00732743
8 0.0340676 0.0340676 0.0340676
10 0.13009 0.13009 0.13009
12 0.527676 0.527676 0.527676
EOD
$d12 << EOD
4 0.00482145 0.00482145 0.00482145
6 0.0257306 0.0257306 0.0257306
8 0.10449 0.10449 0.10449
10 0.429498 0.429498 0.429498
12 1.6408 1.6408 1.6408
EOD
$d13 << EOD
4 0.00561197 0.00561197 0.00561197
6 0.0251506 0.0251506 0.0251506
8 0.109397 0.109397 0.109397
10 0.442157 0.442157 0.442157
12 1.8532 1.8532 1.8532
EOD
$d14 << EOD
4 0.00130939 0.00130939 0.00130939
6 0.0300265 0.0300265 0.0300265
8 0.105409 0.105409 0.105409
10 0.413463 0.413463 0.413463
12 1.69564 1.69564 1.69564
EOD
$d15 << EOD
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
$d16 << EOD
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
$d17 << EOD
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
$d18 << EOD
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
$d19 << EOD
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
set grid
set xlabel offset 0,0.6
set terminal png size 1680,1920
set output 'image.png'
set multiplot layout 4,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'test accuracy, 8-bit momentum, accumulator: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d0 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'test accuracy, 8-bit momentum, accumulator: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d1 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'test accuracy, 8-bit momentum, accumulator: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
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
set ytics ('0.03' 0, '0.1' 1)
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
set ytics ('0.03' 0, '0.1' 1)
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
set title 'update-to-step ratio of parameters: 0.03' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.1' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
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
plot $d15 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d16 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d17 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d18 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d19 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
unset multiplot
set terminal svg size 1680,1920 dynamic background 'white'
set output 'image.svg'
set multiplot layout 4,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'test accuracy, 8-bit momentum, accumulator: sr, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d0 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'test accuracy, 8-bit momentum, accumulator: sr, moving' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc palette notitle, $d1 using 1:2:4 with labels notitle
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'test accuracy, 8-bit momentum, accumulator: rn, sticky' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'optimizer.learning_rate' noenhanced
set xtics ('4' 0, '6' 1, '8' 2, '10' 3, '12' 4)
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
set palette defined (0 '#d6604d', 0.5 '#f7f7f7', 1 '#2166ac')
set cbrange [10:80]

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
set ytics ('0.03' 0, '0.1' 1)
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
set ytics ('0.03' 0, '0.1' 1)
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
set ytics ('0.03' 0, '0.1' 1)
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
set title 'update-to-step ratio of parameters: 0.03' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'update-to-step ratio of parameters: 0.1' noenhanced
set xlabel 'memory.parameter.bits' noenhanced
set ylabel 'update_to_step.parameter' noenhanced
set logscale y

set key bmargin center maxrows 1 samplen 2 width -1
set bmargin 6
plot $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'sr, sticky' noenhanced, $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'sr, moving' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'rn, sticky' noenhanced
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
plot $d15 using 1:2 with lines lw 2 lc '#0072B2' title '4' noenhanced, $d16 using 1:2 with lines lw 2 lc '#D55E00' title '6' noenhanced, $d17 using 1:2 with lines lw 2 lc '#009E73' title '8' noenhanced, $d18 using 1:2 with lines lw 2 lc '#CC79A7' title '10' noenhanced, $d19 using 1:2 with lines lw 2 lc '#E69F00' title '12' noenhanced
unset multiplot
