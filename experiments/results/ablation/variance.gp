$d0 << EOD
0.3 1.00018
0.6 1.0004
1.2 1.00297
EOD
$d1 << EOD
0.3 1.03433
0.6 1.06472
1.2 1.12242
EOD
$d2 << EOD
0.3 1.0315
0.6 1.05722
1.2 1.1203
EOD
$d3 << EOD
0.3 1.02733
0.6 1.05585
1.2 1.11829
EOD
$d4 << EOD
0.3 0.99992
0.6 1.00072
1.2 1.0021
EOD
$d5 << EOD
0.3 1.00049
0.6 1.00128
1.2 1.00691
EOD
$d6 << EOD
0.3 1.04912
0.6 1.08416
1.2 1.14655
EOD
$d7 << EOD
0.3 1.04585
0.6 1.07814
1.2 1.14333
EOD
$d8 << EOD
0.3 1.04798
0.6 1.08966
1.2 1.16488
EOD
$d9 << EOD
0.3 0.995489
0.6 0.997286
1.2 0.993997
EOD
$d10 << EOD
0.3 1.00219
0.6 1.00364
1.2 1.00972
EOD
$d11 << EOD
0.3 1.05803
0.6 1.10612
1.2 1.17301
EOD
$d12 << EOD
0.3 1.05592
0.6 1.09623
1.2 1.16939
EOD
$d13 << EOD
0.3 1.11285
0.6 1.21965
1.2 1.33183
EOD
$d14 << EOD
0.3 0.749477
0.6 0.710932
1.2 0.704904
EOD
set grid
set key below
set terminal png size 1680,480
set output 'variance.png'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set title 'beta2 0.95'
set xlabel 'deviation of ln s within a block'
set ylabel 'steps, stored over exact variance'

plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky', $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky', $d2 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky', $d3 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr', $d4 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'ude8:block256:rn'
unset logscale
set autoscale
set format
set title 'beta2 0.99'
set xlabel 'deviation of ln s within a block'
set ylabel 'steps, stored over exact variance'

plot $d5 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky', $d6 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky', $d7 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky', $d8 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr', $d9 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'ude8:block256:rn'
unset logscale
set autoscale
set format
set title 'beta2 0.999'
set xlabel 'deviation of ln s within a block'
set ylabel 'steps, stored over exact variance'

plot $d10 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky', $d11 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky', $d12 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky', $d13 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr', $d14 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'ude8:block256:rn'
unset multiplot
set terminal svg size 1680,480 dynamic background 'white'
set output 'variance.svg'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set title 'beta2 0.95'
set xlabel 'deviation of ln s within a block'
set ylabel 'steps, stored over exact variance'

plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky', $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky', $d2 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky', $d3 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr', $d4 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'ude8:block256:rn'
unset logscale
set autoscale
set format
set title 'beta2 0.99'
set xlabel 'deviation of ln s within a block'
set ylabel 'steps, stored over exact variance'

plot $d5 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky', $d6 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky', $d7 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky', $d8 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr', $d9 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'ude8:block256:rn'
unset logscale
set autoscale
set format
set title 'beta2 0.999'
set xlabel 'deviation of ln s within a block'
set ylabel 'steps, stored over exact variance'

plot $d10 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky', $d11 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky', $d12 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky', $d13 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr', $d14 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'ude8:block256:rn'
unset multiplot
