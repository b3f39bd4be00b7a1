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
7.61555e+07 0.961939
3.13936e+08 0.993665
1.23946e+09 0.993375
2.03619e+09 0.996323
5.73583e+09 0.998727
1.24598e+10 0.999389
EOD
$d6 << EOD
7.53527e+07 0.965937
3.0879e+08 0.993047
9.40561e+08 0.991185
1.29222e+09 0.994219
3.61436e+09 0.998
7.83128e+09 0.999037
EOD
$d7 << EOD
7.38833e+07 0.960199
2.99371e+08 0.993451
3.93495e+08 0.979555
6.12352e+08 0.987011
1.67568e+09 0.99517
3.60159e+09 0.997661
EOD
$d8 << EOD
7.37533e+07 0.96378
2.98538e+08 0.993959
3.4511e+08 0.976556
5.52135e+08 0.985567
1.50397e+09 0.994664
3.22696e+09 0.997553
EOD
$d9 << EOD
7.34849e+07 0.961114
2.96818e+08 0.994102
2.45217e+08 0.965899
3.65657e+08 0.978899
9.72218e+08 0.992143
2.06682e+09 0.996121
EOD
$d10 << EOD
6 4.20322e+08
11 7.64356e+08
16 1.26767e+09
24 1.96212e+09
80 6.0663e+09
EOD
$d11 << EOD
6 6.33553e+08
11 1.08024e+09
16 1.70744e+09
24 2.547e+09
80 8.66594e+09
EOD
$d12 << EOD
6 1.47635e+09
11 2.87955e+09
16 4.05182e+09
24 6.6584e+09
80 2.20685e+10
EOD
$d13 << EOD
6 1.70744e+09
11 3.24042e+09
16 4.99064e+09
24 7.28826e+09
80 2.49149e+10
EOD
$d14 << EOD
6 2.547e+09
11 4.99064e+09
16 7.28826e+09
24 1.10451e+10
80 3.87545e+10
EOD
$d15 << EOD
6 3.3701e+08
11 6.87697e+08
16 9.9024e+08
24 1.54718e+09
80 5.39062e+09
EOD
$d16 << EOD
6 4.40155e+08
11 8.32093e+08
16 1.25324e+09
24 1.98723e+09
80 7.04073e+09
EOD
$d17 << EOD
6 8.32093e+08
11 1.65204e+09
16 2.48227e+09
24 3.79722e+09
80 1.3923e+10
EOD
$d18 << EOD
6 9.09448e+08
11 1.76033e+09
16 2.75042e+09
24 4.29742e+09
80 1.5188e+10
EOD
$d19 << EOD
6 1.07447e+09
11 2.22787e+09
16 3.32797e+09
24 5.19983e+09
80 1.93132e+10
EOD
$d20 << EOD
6 3.35535e+08
11 6.33553e+08
16 9.12857e+08
24 1.47635e+09
80 4.50471e+09
EOD
$d21 << EOD
6 5.19268e+08
11 1.08024e+09
16 1.47635e+09
24 2.24158e+09
80 7.95704e+09
EOD
$d22 << EOD
6 1.26767e+09
11 2.24158e+09
16 3.24042e+09
24 4.99064e+09
80 1.70457e+10
EOD
$d23 << EOD
6 1.26767e+09
11 2.547e+09
16 3.63078e+09
24 5.51077e+09
80 1.94485e+10
EOD
$d24 << EOD
6 2.24158e+09
11 4.05182e+09
16 6.0663e+09
24 8.66594e+09
80 2.96299e+10
EOD
$d25 << EOD
6 2.47615e+08
11 4.96884e+08
16 7.58176e+08
24 1.16214e+09
80 4.29742e+09
EOD
$d26 << EOD
6 3.86864e+08
11 7.58176e+08
16 1.16214e+09
24 1.76033e+09
80 6.39615e+09
EOD
$d27 << EOD
6 6.87697e+08
11 1.34778e+09
16 2.10583e+09
24 3.32797e+09
80 1.18415e+10
EOD
$d28 << EOD
6 7.58176e+08
11 1.54718e+09
16 2.22787e+09
24 3.48095e+09
80 1.27129e+10
EOD
$d29 << EOD
6 9.9024e+08
11 1.98723e+09
16 3.03232e+09
24 4.64807e+09
80 1.68467e+10
EOD
set grid
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
set xlabel offset 0,0.6
set terminal png size 1680,960
set output 'memory.png'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set title 'bits per parameter'
set xlabel 'parameters'
set ylabel 'all of model memory'
set logscale x
set format x '10^{%L}'
plot $d0 using 1:2 with points pt 7 lc '#0072B2' title 'fp32', $d1 using 1:2 with points pt 7 lc '#D55E00' title 'states8', $d2 using 1:2 with points pt 7 lc '#009E73' title 'lpmm', $d3 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact', $d4 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'measured over planned peak'
set xlabel 'planned bytes'
set ylabel ''
set logscale x
set format x '10^{%L}'
plot $d5 using 1:2 with points pt 7 lc '#0072B2' title 'fp32', $d6 using 1:2 with points pt 7 lc '#D55E00' title 'states8', $d7 using 1:2 with points pt 7 lc '#009E73' title 'lpmm', $d8 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact', $d9 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest GPT, sgd'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d10 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d11 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d12 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d13 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d14 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest ResNet-110 by width, sgd'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d15 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d16 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d17 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d18 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d19 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest GPT, adamw'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d20 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d21 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d22 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d23 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d24 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest ResNet-110 by width, adamw'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d25 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d26 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d27 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d28 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d29 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset multiplot
set terminal svg size 1680,960 dynamic background 'white'
set output 'memory.svg'
set multiplot layout 2,3
unset logscale
set autoscale
set format
set title 'bits per parameter'
set xlabel 'parameters'
set ylabel 'all of model memory'
set logscale x
set format x '10^{%L}'
plot $d0 using 1:2 with points pt 7 lc '#0072B2' title 'fp32', $d1 using 1:2 with points pt 7 lc '#D55E00' title 'states8', $d2 using 1:2 with points pt 7 lc '#009E73' title 'lpmm', $d3 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact', $d4 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'measured over planned peak'
set xlabel 'planned bytes'
set ylabel ''
set logscale x
set format x '10^{%L}'
plot $d5 using 1:2 with points pt 7 lc '#0072B2' title 'fp32', $d6 using 1:2 with points pt 7 lc '#D55E00' title 'states8', $d7 using 1:2 with points pt 7 lc '#009E73' title 'lpmm', $d8 using 1:2 with points pt 7 lc '#CC79A7' title 'lpmm-compact', $d9 using 1:2 with points pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest GPT, sgd'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d10 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d11 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d12 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d13 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d14 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest ResNet-110 by width, sgd'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d15 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d16 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d17 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d18 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d19 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest GPT, adamw'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d20 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d21 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d22 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d23 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d24 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset logscale
set autoscale
set format
set title 'largest ResNet-110 by width, adamw'
set xlabel 'gigabytes'
set ylabel 'parameters'
set logscale xy
set format y '10^{%L}'
set xtics (6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 80, 80, 80, 80, 80)
plot $d25 using 1:2 with linespoints pt 7 lc '#0072B2' title 'fp32', $d26 using 1:2 with linespoints pt 7 lc '#D55E00' title 'states8', $d27 using 1:2 with linespoints pt 7 lc '#009E73' title 'lpmm', $d28 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'lpmm-compact', $d29 using 1:2 with linespoints pt 7 lc '#E69F00' title 'lpmm-min'
unset multiplot
