set encoding utf8
$d0 << EOD
1 2.69973 2.50281 2.89665
2 2.621 2.43302 2.80898
4 2.53191 2.52008 2.54375
8 2.37191 2.19379 2.55002
16 2.20984 2.13248 2.28719
64 2.00541 1.92197 2.08884
EOD
$d1 << EOD
1 2.69132 2.36407 3.01857
2 2.6158 2.49285 2.73875
4 2.53361 2.38915 2.67807
8 2.37141 2.21211 2.53071
16 2.19969 2.02815 2.37123
64 2.00351 1.9994 2.00762
EOD
$d2 << EOD
1 2.70739 2.29981 3.11496
2 2.60469 2.42396 2.78543
4 2.54139 2.14391 2.93887
8 2.42084 2.3214 2.52028
16 2.24846 2.18253 2.31439
64 2.07306 1.87643 2.26969
EOD
$d3 << EOD
1 2.67839 2.42387 2.93291
2 2.60475 2.54959 2.6599
4 2.59388 2.45416 2.73361
8 2.56148 2.53223 2.59074
16 2.55282 2.50391 2.60173
64 2.53431 2.52181 2.5468
EOD
$d4 << EOD
1 2.68058 2.3818 2.97936
2 2.62017 2.46575 2.77459
4 2.53835 2.45653 2.62017
8 2.37718 2.10732 2.64704
16 2.22351 2.17328 2.27374
64 2.00594 1.98427 2.0276
EOD
$d5 << EOD
1 2.70462 2.22468 3.18456
2 2.61535 2.47426 2.75643
4 2.54868 1.84328 3.25409
8 2.42092 2.12449 2.71734
16 2.29711 1.65267 2.94154
64 2.24007 1.99021 2.48992
EOD
$d6 << EOD
1 2.68605 2.42141 2.95069
2 2.64137 2.39095 2.89179
4 2.63012 2.48122 2.77903
8 2.62279 2.4817 2.76388
16 2.61763 2.60323 2.63203
64 2.62117 2.61578 2.62657
EOD
$d7 << EOD
1 -0.00841438 -0.138745 0.121916
2 -0.00520254 -0.0702323 0.0598272
4 0.00169422 -0.1546 0.157988
8 -0.000498046 -0.01931 0.0183139
16 -0.0101483 -0.259047 0.23875
64 -0.00189294 -0.0894373 0.0856514
EOD
$d8 << EOD
1 0.00765383 -0.202998 0.218306
2 -0.0163096 -0.0235522 -0.00906702
4 0.00947362 -0.399839 0.418786
8 0.0489299 -0.228626 0.326485
16 0.0386207 0.0271925 0.0500489
64 0.0676568 -0.212404 0.347718
EOD
$d9 << EOD
1 -0.0213429 -0.0789435 0.0362578
2 -0.0162538 -0.259384 0.226876
4 0.0619689 -0.0895853 0.213523
8 0.189574 0.040716 0.338432
16 0.342981 0.216715 0.469246
64 0.528901 0.45796 0.599842
EOD
$d10 << EOD
1 -0.0191518 -0.121015 0.0827114
2 -0.00082938 -0.0343892 0.0327304
4 0.00643613 -0.087214 0.100086
8 0.00527184 -0.0864697 0.0970133
16 0.0136763 -0.0134515 0.0408041
64 0.000532692 -0.104566 0.105632
EOD
$d11 << EOD
1 0.00488767 -0.278129 0.287905
2 -0.00565284 -0.0525439 0.0412382
4 0.0167674 -0.700471 0.734006
8 0.0490079 -0.425535 0.523551
16 0.0872712 -0.479806 0.654348
64 0.234663 0.0682398 0.401086
EOD
$d12 << EOD
1 -0.013684 -0.0814064 0.0540385
2 0.0203669 -0.0420755 0.0828094
4 0.09821 -0.0625238 0.258944
8 0.25088 0.213855 0.287906
16 0.407796 0.316041 0.499551
64 0.615768 0.526938 0.704597
EOD
$d13 << EOD
1 0.0109157 0.0102503 0.0115811
2 0.0144271 0.0111049 0.0177493
4 0.019784 0.0128701 0.0266979
8 0.0341118 0.00192178 0.0663019
16 0.0587841 -0.00574496 0.123313
64 0.167948 0.154463 0.181433
EOD
$d14 << EOD
1 0.185641 0.156259 0.215023
2 0.248321 0.173268 0.323373
4 0.336379 0.282743 0.390014
8 0.508 0.353663 0.662337
16 0.751131 0.60486 0.897402
64 1.64837 1.51423 1.7825
EOD
$d15 << EOD
1 1.1969 0.979918 1.41388
2 1.64877 1.57414 1.72341
4 2.19437 2.17781 2.21093
8 3.18621 2.95021 3.42221
16 4.39693 4.27149 4.52238
64 9.33668 8.44848 10.2249
EOD
$d16 << EOD
1 0.00773323 0.00723055 0.0082359
2 0.0102561 0.00922174 0.0112905
4 0.0138797 0.00831324 0.0194461
8 0.0226451 0.0166935 0.0285967
16 0.0406664 0.0108571 0.0704758
64 0.116669 0.0379819 0.195356
EOD
$d17 << EOD
1 0.132987 0.0917179 0.174257
2 0.174 0.150048 0.197952
4 0.228068 0.191268 0.264869
8 0.333243 0.29795 0.368535
16 0.449831 0.430685 0.468978
64 0.678913 0.67139 0.686435
EOD
$d18 << EOD
1 0.709176 0.704855 0.713498
2 0.798997 0.791632 0.806361
4 0.872282 0.703337 1.04123
8 0.918882 0.891414 0.94635
16 0.973018 0.956021 0.990015
64 1.03287 0.992398 1.07334
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fixed_microbatch' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 4 samplen 2 width 1
set bmargin 8
set logscale x

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:sr' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int4:block128:sr' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int2:block128:sr' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int8:block128:rn' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int4:block128:rn' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int2:block128:rn' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss above that of fp32 accumulators' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
set logscale x

plot $d7 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block128:sr' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int4:block128:sr' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int2:block128:sr' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int8:block128:rn' noenhanced, $d11 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int4:block128:rn' noenhanced, $d12 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'int2:block128:rn' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'rounding error of the sum, of its size' noenhanced
set xlabel 'train.microbatches' noenhanced
set ylabel 'relative_error.accumulator' noenhanced
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
set logscale x
set logscale y
set format y '%g'

plot $d13 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'int8:block128:sr' noenhanced, $d14 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int4:block128:sr' noenhanced, $d15 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int2:block128:sr' noenhanced, $d16 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int8:block128:rn' noenhanced, $d17 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int4:block128:rn' noenhanced, $d18 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'int2:block128:rn' noenhanced
unset multiplot
set output
