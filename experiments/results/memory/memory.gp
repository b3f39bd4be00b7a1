set encoding utf8
$d0 << EOD
75290 96.204
269722 96.1632
464154 96.1566
658586 96.1539
853018 96.1525
1.72796e+06 96.1499
9.99096e+07 96
812544 128
1.07789e+07 128
1.2444e+08 128
3.54823e+08 128
7.7403e+08 128
1.55761e+09 128
2.65155e+09 128
6.6584e+09 128
1.28534e+10 128
1.74604e+11 128
EOD
$d1 << EOD
75290 72.431
269722 72.3512
464154 72.3382
658586 72.3329
853018 72.33
1.72796e+06 72.3251
9.99096e+07 72.0667
812544 80.5323
1.07789e+07 80.2614
1.2444e+08 80.1717
3.54823e+08 80.1684
7.7403e+08 80.1622
1.55761e+09 80.1558
2.65155e+09 80.1443
6.6584e+09 80.1373
1.28534e+10 80.135
1.74604e+11 80.1292
EOD
$d2 << EOD
75290 28.9252
269722 28.7698
464154 28.7446
658586 28.7343
853018 28.7287
1.72796e+06 28.7191
9.99096e+07 28.2618
812544 37.1544
1.07789e+07 36.6361
1.2444e+08 36.4643
3.54823e+08 36.458
7.7403e+08 36.4462
1.55761e+09 36.4339
2.65155e+09 36.412
6.6584e+09 36.3986
1.28534e+10 36.3941
1.74604e+11 36.3831
EOD
$d3 << EOD
75290 25.0711
269722 24.9135
464154 24.888
658586 24.8775
853018 24.8718
1.72796e+06 24.8621
9.99096e+07 24.3875
812544 33.3124
1.07789e+07 32.7722
1.2444e+08 32.5931
3.54823e+08 32.5865
7.7403e+08 32.5742
1.55761e+09 32.5614
2.65155e+09 32.5385
6.6584e+09 32.5246
1.28534e+10 32.5199
1.74604e+11 32.5084
EOD
$d4 << EOD
75290 17.1146
269722 16.9523
464154 16.9259
658586 16.9151
853018 16.9093
1.72796e+06 16.8992
9.99096e+07 16.3889
812544 21.4145
1.07789e+07 20.8064
1.2444e+08 20.6048
3.54823e+08 20.5974
7.7403e+08 20.5836
1.55761e+09 20.5691
2.65155e+09 20.5434
6.6584e+09 20.5276
1.28534e+10 20.5224
1.74604e+11 20.5095
EOD
$d5 << EOD
75290 12.9279
269722 12.8071
464154 12.7875
658586 12.7795
853018 12.7752
1.72796e+06 12.7677
9.99096e+07 12.384
812544 17.4485
1.07789e+07 16.8178
1.2444e+08 16.6087
3.54823e+08 16.601
7.7403e+08 16.5867
1.55761e+09 16.5717
2.65155e+09 16.545
6.6584e+09 16.5287
1.28534e+10 16.5232
1.74604e+11 16.5098
EOD
$d6 << EOD
4.44514e+07 0.877041
7.61555e+07 0.933756
1.0786e+08 0.953636
1.39564e+08 0.965129
1.71268e+08 0.972081
3.13936e+08 0.987102
1.23426e+09 0.994744
4.47415e+07 0.953291
5.50859e+08 0.986326
2.02858e+09 1.00091
5.72848e+09 1.0002
1.24507e+10 1.00013
EOD
$d7 << EOD
4.42277e+07 0.877125
7.53527e+07 0.932452
1.06478e+08 0.951472
1.37603e+08 0.963851
1.68728e+08 0.971785
3.0879e+08 0.986773
9.35367e+08 0.994867
3.99203e+07 0.959865
4.86538e+08 0.990516
1.28461e+09 1.00105
3.60701e+09 1.00045
7.82225e+09 1.00029
EOD
$d8 << EOD
4.38183e+07 0.871299
7.38833e+07 0.931039
1.03948e+08 0.952005
1.34013e+08 0.964664
1.64078e+08 0.970762
2.99371e+08 0.986719
3.88301e+08 0.98368
3.55145e+07 0.944234
4.27759e+08 0.981268
6.04741e+08 1.00001
1.66833e+09 1.00646
3.59256e+09 1.00002
EOD
$d9 << EOD
4.3782e+07 0.882499
7.37533e+07 0.931736
1.03725e+08 0.953703
1.33696e+08 0.963861
1.63667e+08 0.97245
2.98538e+08 0.986331
3.39916e+08 0.98062
3.51242e+07 0.927553
4.22552e+08 0.990896
5.44524e+08 1.00486
1.49661e+09 1.00522
3.21793e+09 1.0003
EOD
$d10 << EOD
4.37071e+07 0.876982
7.34849e+07 0.933355
1.03263e+08 0.95194
1.3304e+08 0.964761
1.62818e+08 0.971433
2.96818e+08 0.986471
2.40024e+08 0.974786
3.39158e+07 1.00178
4.0643e+08 1.0238
3.58047e+08 1.00318
9.64862e+08 1.00129
2.05779e+09 1.00113
EOD
$d11 << EOD
4.36677e+07 0.878712
7.33451e+07 0.931001
1.03023e+08 0.950939
1.327e+08 0.963995
1.62377e+08 0.971649
2.95926e+08 0.98557
1.90008e+08 0.967952
3.3513e+07 0.800427
4.01056e+08 0.952386
2.95888e+08 0.978569
7.87611e+08 0.98999
1.67108e+09 0.995268
EOD
$d12 << EOD
0 16
1 10.0215
2 4.55804
3 4.07414
4 2.5756
5 2.07609
EOD
$d13 << EOD
0 16
1 10.0215
2 4.55804
3 4.07414
4 2.5756
5 2.07609
EOD
$d14 << EOD
0 15.9844
1 10.0059
2 4.54244
3 4.05854
4 2.56
5 2.06049
EOD
$d15 << EOD
0 11.9883
1 8.99903
2 3.52781
3 3.0439
4 2.04488
5 1.79512
EOD
$d16 << EOD
0 7.9922
1 7.9922
2 2.52098
3 2.02927
4 1.52976
5 1.28
EOD
$d17 << EOD
0 3.9961
1 3.9961
2 1.50634
3 1.01463
4 1.01463
5 0.889757
EOD
$d18 << EOD
6 4.20322e+08
11 7.64356e+08
16 1.26767e+09
24 1.96212e+09
80 6.0663e+09
EOD
$d19 << EOD
6 6.33553e+08
11 1.08024e+09
16 1.70744e+09
24 2.547e+09
80 8.66594e+09
EOD
$d20 << EOD
6 1.47635e+09
11 2.87955e+09
16 4.05182e+09
24 6.6584e+09
80 2.20685e+10
EOD
$d21 << EOD
6 1.70744e+09
11 3.24042e+09
16 4.99064e+09
24 7.28826e+09
80 2.49149e+10
EOD
$d22 << EOD
6 2.547e+09
11 4.99064e+09
16 7.28826e+09
24 1.10451e+10
80 3.87545e+10
EOD
$d23 << EOD
6 3.24042e+09
11 5.51077e+09
16 8.66594e+09
24 1.28534e+10
80 4.2875e+10
EOD
$d24 << EOD
6 3.3701e+08
11 6.87697e+08
16 9.9024e+08
24 1.54718e+09
80 5.39062e+09
EOD
$d25 << EOD
6 4.40155e+08
11 8.32093e+08
16 1.25324e+09
24 1.98723e+09
80 7.04073e+09
EOD
$d26 << EOD
6 8.32093e+08
11 1.65204e+09
16 2.48227e+09
24 3.79722e+09
80 1.3923e+10
EOD
$d27 << EOD
6 9.09448e+08
11 1.76033e+09
16 2.75042e+09
24 4.29742e+09
80 1.5188e+10
EOD
$d28 << EOD
6 1.07447e+09
11 2.22787e+09
16 3.32797e+09
24 5.19983e+09
80 1.93132e+10
EOD
$d29 << EOD
6 1.25324e+09
11 2.48227e+09
16 3.79722e+09
24 5.98363e+09
80 2.19482e+10
EOD
$d30 << EOD
6 3.35535e+08
11 6.33553e+08
16 9.12857e+08
24 1.47635e+09
80 4.99064e+09
EOD
$d31 << EOD
6 5.19268e+08
11 1.08024e+09
16 1.47635e+09
24 2.24158e+09
80 7.95704e+09
EOD
$d32 << EOD
6 1.26767e+09
11 2.24158e+09
16 3.24042e+09
24 4.99064e+09
80 1.70457e+10
EOD
$d33 << EOD
6 1.26767e+09
11 2.547e+09
16 3.63078e+09
24 5.51077e+09
80 1.94485e+10
EOD
$d34 << EOD
6 2.24158e+09
11 4.05182e+09
16 6.0663e+09
24 8.66594e+09
80 2.96299e+10
EOD
$d35 << EOD
6 2.547e+09
11 4.99064e+09
16 7.28826e+09
24 1.10451e+10
80 3.67975e+10
EOD
$d36 << EOD
6 2.47615e+08
11 4.96884e+08
16 7.58176e+08
24 1.16214e+09
80 4.29742e+09
EOD
$d37 << EOD
6 3.86864e+08
11 7.58176e+08
16 1.16214e+09
24 1.76033e+09
80 6.39615e+09
EOD
$d38 << EOD
6 6.87697e+08
11 1.34778e+09
16 2.10583e+09
24 3.32797e+09
80 1.18415e+10
EOD
$d39 << EOD
6 7.58176e+08
11 1.54718e+09
16 2.22787e+09
24 3.48095e+09
80 1.27129e+10
EOD
$d40 << EOD
6 9.9024e+08
11 1.98723e+09
16 3.03232e+09
24 4.64807e+09
80 1.68467e+10
EOD
$d41 << EOD
6 1.07447e+09
11 2.22787e+09
16 3.32797e+09
24 5.19983e+09
80 1.89506e+10
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'memory' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,1440 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,1440 background '#ffffff'
}
set output file
set multiplot layout 3,3
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'bits per parameter' noenhanced
set xlabel 'parameters' noenhanced
set ylabel 'all of model memory' noenhanced
set logscale x
set format x '10^{%L}'
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d0 using 1:2 with points pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 7 lc '#D55E00' title 'states8' noenhanced, $d2 using 1:2 with points pt 7 lc '#009E73' title 'lpmm' noenhanced, $d3 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d4 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d5 using 1:2 with points pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'measured over planned peak' noenhanced
set xlabel 'planned bytes' noenhanced
set ylabel '' noenhanced
set logscale x
set format x '10^{%L}'
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d6 using 1:2 with points pt 7 lc '#0072B2' title 'fp32' noenhanced, $d7 using 1:2 with points pt 7 lc '#D55E00' title 'states8' noenhanced, $d8 using 1:2 with points pt 7 lc '#009E73' title 'lpmm' noenhanced, $d9 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d10 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d11 using 1:2 with points pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'GPT-2 124M, model memory' noenhanced
set xlabel '' noenhanced
set ylabel 'bytes per parameter' noenhanced
set boxwidth 0.8
set xtics ('fp32' 0, 'states8' 1, 'lpmm' 2, 'lpmm-compact' 3, 'lpmm-min' 4, 'lpmm-nano' 5) rotate by 30 right
set yrange [0:*]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d12 using 1:2 with boxes fs solid noborder lc '#56B4E9' title 'buffers' noenhanced, $d13 using 1:2 with boxes fs solid noborder lc '#E69F00' title 'exempt' noenhanced, $d14 using 1:2 with boxes fs solid noborder lc '#CC79A7' title 'variance' noenhanced, $d15 using 1:2 with boxes fs solid noborder lc '#009E73' title 'momentum' noenhanced, $d16 using 1:2 with boxes fs solid noborder lc '#D55E00' title 'accumulator' noenhanced, $d17 using 1:2 with boxes fs solid noborder lc '#0072B2' title 'parameter' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'largest GPT, sgd' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d18 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d19 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d20 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d21 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d22 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d23 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'largest ResNet-110 by width, sgd' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d24 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d25 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d26 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d27 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d28 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d29 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'largest GPT, adamw' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d30 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d31 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d32 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d33 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d34 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d35 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'largest ResNet-110 by width, adamw' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d36 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d37 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d38 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d39 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d40 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d41 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset multiplot
set output
