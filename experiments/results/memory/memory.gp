$d0 << EOD
269722 96.1632
1.72796e+06 96.1499
9.99096e+07 96
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
269722 72.3512
1.72796e+06 72.3251
9.99096e+07 72.0667
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
269722 28.7698
1.72796e+06 28.7191
9.99096e+07 28.2618
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
269722 24.9135
1.72796e+06 24.8621
9.99096e+07 24.3875
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
269722 16.9523
1.72796e+06 16.8992
9.99096e+07 16.3889
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
269722 13.9668
1.72796e+06 13.9131
9.99096e+07 13.3894
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
7.61193e+07 0.9342
3.139e+08 0.987216
1.23315e+09 0.995643
2.02746e+09 1.00146
5.72736e+09 1.0004
1.24496e+10 1.00022
EOD
$d7 << EOD
7.53165e+07 0.932901
3.08754e+08 0.986889
9.34253e+08 0.996054
1.28349e+09 1.00192
3.60589e+09 1.00075
7.82114e+09 1.00043
EOD
$d8 << EOD
7.38471e+07 0.931495
2.99335e+08 0.986839
3.87187e+08 0.986511
6.03627e+08 1.00186
1.66721e+09 1.00713
3.59145e+09 1.00033
EOD
$d9 << EOD
7.37171e+07 0.930916
2.98502e+08 0.986217
3.38802e+08 0.988149
5.4341e+08 1.00692
1.4955e+09 1.00597
3.21682e+09 1.00065
EOD
$d10 << EOD
7.34487e+07 0.9298
2.96782e+08 0.986716
2.3891e+08 0.980189
3.56933e+08 1.00631
9.63748e+08 1.00244
2.05668e+09 1.00167
EOD
$d11 << EOD
7.3348e+07 0.931132
2.96137e+08 0.986776
2.0145e+08 0.97511
2.94773e+08 1.00952
7.86497e+08 1.01689
1.66996e+09 1.00808
EOD
$d12 << EOD
6 4.20322e+08
11 7.64356e+08
16 1.26767e+09
24 1.96212e+09
80 6.0663e+09
EOD
$d13 << EOD
6 6.33553e+08
11 1.08024e+09
16 1.70744e+09
24 2.547e+09
80 8.66594e+09
EOD
$d14 << EOD
6 1.47635e+09
11 2.87955e+09
16 4.05182e+09
24 6.6584e+09
80 2.20685e+10
EOD
$d15 << EOD
6 1.70744e+09
11 3.24042e+09
16 4.99064e+09
24 7.28826e+09
80 2.49149e+10
EOD
$d16 << EOD
6 2.547e+09
11 4.99064e+09
16 7.28826e+09
24 1.10451e+10
80 3.87545e+10
EOD
$d17 << EOD
6 3.24042e+09
11 6.0663e+09
16 9.41613e+09
24 1.38277e+10
80 4.72787e+10
EOD
$d18 << EOD
6 3.3701e+08
11 6.87697e+08
16 9.9024e+08
24 1.54718e+09
80 5.39062e+09
EOD
$d19 << EOD
6 4.40155e+08
11 8.32093e+08
16 1.25324e+09
24 1.98723e+09
80 7.04073e+09
EOD
$d20 << EOD
6 8.32093e+08
11 1.65204e+09
16 2.48227e+09
24 3.96052e+09
80 1.3923e+10
EOD
$d21 << EOD
6 9.09448e+08
11 1.76033e+09
16 2.75042e+09
24 4.29742e+09
80 1.55129e+10
EOD
$d22 << EOD
6 1.07447e+09
11 2.22787e+09
16 3.32797e+09
24 5.39062e+09
80 1.93132e+10
EOD
$d23 << EOD
6 1.16214e+09
11 2.48227e+09
16 3.79722e+09
24 5.78252e+09
80 2.15615e+10
EOD
$d24 << EOD
6 3.35535e+08
11 6.33553e+08
16 9.12857e+08
24 1.47635e+09
80 4.99064e+09
EOD
$d25 << EOD
6 5.19268e+08
11 1.08024e+09
16 1.47635e+09
24 2.24158e+09
80 7.95704e+09
EOD
$d26 << EOD
6 1.26767e+09
11 2.24158e+09
16 3.24042e+09
24 4.99064e+09
80 1.70457e+10
EOD
$d27 << EOD
6 1.26767e+09
11 2.547e+09
16 3.63078e+09
24 5.51077e+09
80 1.94485e+10
EOD
$d28 << EOD
6 2.24158e+09
11 4.05182e+09
16 6.0663e+09
24 8.66594e+09
80 2.96299e+10
EOD
$d29 << EOD
6 2.547e+09
11 4.99064e+09
16 7.28826e+09
24 1.10451e+10
80 3.67975e+10
EOD
$d30 << EOD
6 2.47615e+08
11 4.96884e+08
16 7.58176e+08
24 1.25324e+09
80 4.29742e+09
EOD
$d31 << EOD
6 3.86864e+08
11 7.58176e+08
16 1.16214e+09
24 1.76033e+09
80 6.39615e+09
EOD
$d32 << EOD
6 6.87697e+08
11 1.44576e+09
16 2.10583e+09
24 3.32797e+09
80 1.18415e+10
EOD
$d33 << EOD
6 7.58176e+08
11 1.54718e+09
16 2.22787e+09
24 3.63737e+09
80 1.27129e+10
EOD
$d34 << EOD
6 9.9024e+08
11 1.98723e+09
16 3.03232e+09
24 4.64807e+09
80 1.71888e+10
EOD
$d35 << EOD
6 1.07447e+09
11 2.22787e+09
16 3.32797e+09
24 5.39062e+09
80 1.93132e+10
EOD
set grid
set xlabel offset 0,0.6
set terminal png size 1680,960
set output 'memory.png'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'bits per parameter' noenhanced
set xlabel 'parameters' noenhanced
set ylabel 'all of model memory' noenhanced
set logscale x
set format x '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2 with points pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 7 lc '#D55E00' title 'states8' noenhanced, $d2 using 1:2 with points pt 7 lc '#009E73' title 'lpmm' noenhanced, $d3 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d4 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d5 using 1:2 with points pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'measured over planned peak' noenhanced
set xlabel 'planned bytes' noenhanced
set ylabel '' noenhanced
set logscale x
set format x '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d6 using 1:2 with points pt 7 lc '#0072B2' title 'fp32' noenhanced, $d7 using 1:2 with points pt 7 lc '#D55E00' title 'states8' noenhanced, $d8 using 1:2 with points pt 7 lc '#009E73' title 'lpmm' noenhanced, $d9 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d10 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d11 using 1:2 with points pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest GPT, sgd' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d12 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d14 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d15 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d16 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d17 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest ResNet-110 by width, sgd' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d18 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d19 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d20 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d21 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d22 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d23 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest GPT, adamw' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d24 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d25 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d26 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d27 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d28 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d29 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest ResNet-110 by width, adamw' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d30 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d31 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d32 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d33 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d34 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d35 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset multiplot
set terminal svg size 1680,960 dynamic background 'white'
set output 'memory.svg'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'bits per parameter' noenhanced
set xlabel 'parameters' noenhanced
set ylabel 'all of model memory' noenhanced
set logscale x
set format x '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2 with points pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 7 lc '#D55E00' title 'states8' noenhanced, $d2 using 1:2 with points pt 7 lc '#009E73' title 'lpmm' noenhanced, $d3 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d4 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d5 using 1:2 with points pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'measured over planned peak' noenhanced
set xlabel 'planned bytes' noenhanced
set ylabel '' noenhanced
set logscale x
set format x '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d6 using 1:2 with points pt 7 lc '#0072B2' title 'fp32' noenhanced, $d7 using 1:2 with points pt 7 lc '#D55E00' title 'states8' noenhanced, $d8 using 1:2 with points pt 7 lc '#009E73' title 'lpmm' noenhanced, $d9 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d10 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d11 using 1:2 with points pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest GPT, sgd' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d12 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d14 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d15 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d16 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d17 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest ResNet-110 by width, sgd' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d18 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d19 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d20 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d21 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d22 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d23 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest GPT, adamw' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d24 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d25 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d26 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d27 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d28 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d29 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'largest ResNet-110 by width, adamw' noenhanced
set xlabel 'gigabytes' noenhanced
set ylabel 'parameters' noenhanced
set logscale xy
set format y '10^{%L}'
set xtics (6, 11, 16, 24, 80)
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d30 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32' noenhanced, $d31 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8' noenhanced, $d32 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm' noenhanced, $d33 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact' noenhanced, $d34 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min' noenhanced, $d35 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'lpmm-nano' noenhanced
unset multiplot
