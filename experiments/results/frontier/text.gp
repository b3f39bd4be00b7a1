$d0 << EOD
16.3541 2.17207
16.3541 2.20301
17.3378 2.11201
17.3378 2.11026
17.3378 2.08318
17.3378 2.1145
18.3215 1.97981
18.3215 1.99834
18.3215 2.11108
18.3215 2.13298
19.3051 2.09999
19.3051 2.12245
19.3051 1.96996
19.3051 1.97481
20.2888 2.22073
20.2888 2.00774
20.2888 1.98826
21.2725 2.09789
21.2725 2.12751
21.2725 1.98634
21.2725 2.01746
22.2561 2.02003
22.2561 2.05563
23.2398 2.10798
23.2398 2.00321
24.2235 2.00977
25.2071 1.99864
EOD
$d1 << EOD
17.3378 2.06591
17.3378 2.06053
18.3215 2.011
18.3215 2.01886
18.3215 1.98654
18.3215 1.9923
19.3051 1.9045
19.3051 1.91104
19.3051 1.9931
19.3051 1.99917
20.2888 2.026
20.2888 2.01966
20.2888 1.93352
20.2888 1.95631
21.2725 2.06085
21.2725 1.93973
21.2725 1.96243
22.2561 2.01042
22.2561 1.99262
22.2561 1.95586
22.2561 2.00552
23.2398 1.9284
23.2398 1.9826
24.2235 1.99511
24.2235 1.98879
25.2071 1.95735
26.1908 1.96774
EOD
$d2 << EOD
19.3051 1.98735
19.3051 1.99727
20.2888 1.9434
20.2888 1.94493
20.2888 1.9197
20.2888 1.89321
21.2725 1.8813
21.2725 1.87476
21.2725 1.91213
21.2725 1.91481
22.2561 1.92683
22.2561 1.95462
22.2561 1.87495
22.2561 1.96167
23.2398 1.96542
23.2398 1.89317
23.2398 1.90945
24.2235 1.93388
24.2235 1.91839
24.2235 1.93857
24.2235 1.9326
25.2071 1.95235
25.2071 1.91895
26.1908 1.93598
26.1908 1.91197
27.1744 1.93739
28.1581 1.98174
EOD
$d3 << EOD
16.3541 2.17207
17.3378 2.06053
18.3215 1.97981
19.3051 1.9045
20.2888 1.89321
21.2725 1.87476
EOD
$d4 << EOD
16.3541 1.97466
28.1581 1.97466
EOD
$d5 << EOD
16.3541 2.17207
16.3541 2.20301
17.3378 2.06591
17.3378 2.06053
19.3051 1.98735
19.3051 1.99727
20.2888 2.22073
21.2725 2.06085
23.2398 1.96542
EOD
$d6 << EOD
17.3378 2.11201
17.3378 2.11026
18.3215 2.011
18.3215 2.01886
20.2888 1.9434
20.2888 1.94493
21.2725 2.09789
22.2561 2.01042
24.2235 1.93388
EOD
$d7 << EOD
19.3051 2.09999
19.3051 2.12245
20.2888 2.026
20.2888 2.01966
22.2561 1.92683
22.2561 1.95462
23.2398 2.10798
24.2235 1.99511
26.1908 1.93598
EOD
$d8 << EOD
17.3378 2.08318
17.3378 2.1145
18.3215 1.98654
18.3215 1.9923
20.2888 1.9197
20.2888 1.89321
21.2725 2.12751
22.2561 1.99262
24.2235 1.91839
EOD
$d9 << EOD
18.3215 1.97981
18.3215 1.99834
19.3051 1.9045
19.3051 1.91104
21.2725 1.8813
21.2725 1.87476
22.2561 2.02003
23.2398 1.9284
25.2071 1.95235
EOD
$d10 << EOD
20.2888 2.00774
20.2888 1.98826
21.2725 1.93973
21.2725 1.96243
23.2398 1.89317
23.2398 1.90945
24.2235 2.00977
25.2071 1.95735
27.1744 1.93739
EOD
$d11 << EOD
18.3215 2.11108
18.3215 2.13298
19.3051 1.9931
19.3051 1.99917
21.2725 1.91213
21.2725 1.91481
22.2561 2.05563
23.2398 1.9826
25.2071 1.91895
EOD
$d12 << EOD
19.3051 1.96996
19.3051 1.97481
20.2888 1.93352
20.2888 1.95631
22.2561 1.87495
22.2561 1.96167
23.2398 2.00321
24.2235 1.98879
26.1908 1.91197
EOD
$d13 << EOD
21.2725 1.98634
21.2725 2.01746
22.2561 1.95586
22.2561 2.00552
24.2235 1.93857
24.2235 1.9326
25.2071 1.99864
26.1908 1.96774
28.1581 1.98174
EOD
$d14 << EOD
16.3541 2.17207
17.3378 2.06053
18.3215 1.97981
19.3051 1.9045
20.2888 1.89321
21.2725 1.87476
EOD
$d15 << EOD
16.3541 1.97466
28.1581 1.97466
EOD
$d16 << EOD
16.3541 2.17207
17.3378 2.06591
17.3378 2.11201
17.3378 2.08318
18.3215 2.011
18.3215 1.98654
18.3215 1.97981
18.3215 2.11108
19.3051 1.98735
19.3051 2.09999
19.3051 1.9045
19.3051 1.9931
19.3051 1.96996
20.2888 1.9434
20.2888 2.026
20.2888 1.9197
20.2888 2.00774
20.2888 1.93352
21.2725 1.8813
21.2725 1.93973
21.2725 1.91213
21.2725 1.98634
22.2561 1.92683
22.2561 1.87495
22.2561 1.95586
23.2398 1.89317
24.2235 1.93857
EOD
$d17 << EOD
16.3541 2.20301
17.3378 2.06053
17.3378 2.11026
17.3378 2.1145
18.3215 2.01886
18.3215 1.9923
18.3215 1.99834
18.3215 2.13298
19.3051 1.99727
19.3051 2.12245
19.3051 1.91104
19.3051 1.99917
19.3051 1.97481
20.2888 1.94493
20.2888 2.01966
20.2888 1.89321
20.2888 1.98826
20.2888 1.95631
21.2725 1.87476
21.2725 1.96243
21.2725 1.91481
21.2725 2.01746
22.2561 1.95462
22.2561 1.96167
22.2561 2.00552
23.2398 1.90945
24.2235 1.9326
EOD
$d18 << EOD
20.2888 2.22073
21.2725 2.06085
21.2725 2.09789
21.2725 2.12751
22.2561 2.01042
22.2561 1.99262
22.2561 2.02003
22.2561 2.05563
23.2398 1.96542
23.2398 2.10798
23.2398 1.9284
23.2398 1.9826
23.2398 2.00321
24.2235 1.93388
24.2235 1.99511
24.2235 1.91839
24.2235 2.00977
24.2235 1.98879
25.2071 1.95235
25.2071 1.95735
25.2071 1.91895
25.2071 1.99864
26.1908 1.93598
26.1908 1.91197
26.1908 1.96774
27.1744 1.93739
28.1581 1.98174
EOD
$d19 << EOD
16.3541 2.17207
17.3378 2.06053
18.3215 1.97981
19.3051 1.9045
20.2888 1.89321
21.2725 1.87476
EOD
$d20 << EOD
16.3541 1.97466
28.1581 1.97466
EOD
set grid
set xlabel offset 0,0.6
set terminal pngcairo font 'sans,11' size 1680,480
set output 'text.png'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss against bits, by parameter' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set yrange [1.8:2.3]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2 with points pt 7 lc '#D55E00' title 'int5' noenhanced, $d1 using 1:2 with points pt 7 lc '#009E73' title 'int6' noenhanced, $d2 using 1:2 with points pt 7 lc '#CC79A7' title 'int8' noenhanced, $d3 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d4 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'by accumulator and momentum' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set yrange [1.8:2.3]

set key bmargin center maxrows 6 samplen 2 width 1
set bmargin 10
plot $d5 using 1:2 with points pt 7 lc '#D55E00' title 'int2, int3' noenhanced, $d6 using 1:2 with points pt 7 lc '#009E73' title 'int2, soft4' noenhanced, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int2, int6' noenhanced, $d8 using 1:2 with points pt 7 lc '#E69F00' title 'int3, int3' noenhanced, $d9 using 1:2 with points pt 7 lc '#56B4E9' title 'int3, soft4' noenhanced, $d10 using 1:2 with points pt 7 lc '#000000' title 'int3, int6' noenhanced, $d11 using 1:2 with points pt 7 lc '#8C8C00' title 'soft4, int3' noenhanced, $d12 using 1:2 with points pt 4 lc '#0072B2' title 'soft4, soft4' noenhanced, $d13 using 1:2 with points pt 4 lc '#D55E00' title 'soft4, int6' noenhanced, $d14 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d15 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'by variance' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set yrange [1.8:2.3]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d16 using 1:2 with points pt 7 lc '#D55E00' title 'sqrt04' noenhanced, $d17 using 1:2 with points pt 7 lc '#009E73' title 'de04' noenhanced, $d18 using 1:2 with points pt 7 lc '#CC79A7' title 'sqrt08' noenhanced, $d19 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d20 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
unset multiplot
set terminal svg size 1680,480 dynamic background 'white'
set output 'text.svg'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss against bits, by parameter' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set yrange [1.8:2.3]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2 with points pt 7 lc '#D55E00' title 'int5' noenhanced, $d1 using 1:2 with points pt 7 lc '#009E73' title 'int6' noenhanced, $d2 using 1:2 with points pt 7 lc '#CC79A7' title 'int8' noenhanced, $d3 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d4 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'by accumulator and momentum' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set yrange [1.8:2.3]

set key bmargin center maxrows 6 samplen 2 width 1
set bmargin 10
plot $d5 using 1:2 with points pt 7 lc '#D55E00' title 'int2, int3' noenhanced, $d6 using 1:2 with points pt 7 lc '#009E73' title 'int2, soft4' noenhanced, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int2, int6' noenhanced, $d8 using 1:2 with points pt 7 lc '#E69F00' title 'int3, int3' noenhanced, $d9 using 1:2 with points pt 7 lc '#56B4E9' title 'int3, soft4' noenhanced, $d10 using 1:2 with points pt 7 lc '#000000' title 'int3, int6' noenhanced, $d11 using 1:2 with points pt 7 lc '#8C8C00' title 'soft4, int3' noenhanced, $d12 using 1:2 with points pt 4 lc '#0072B2' title 'soft4, soft4' noenhanced, $d13 using 1:2 with points pt 4 lc '#D55E00' title 'soft4, int6' noenhanced, $d14 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d15 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'by variance' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set yrange [1.8:2.3]

set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
plot $d16 using 1:2 with points pt 7 lc '#D55E00' title 'sqrt04' noenhanced, $d17 using 1:2 with points pt 7 lc '#009E73' title 'de04' noenhanced, $d18 using 1:2 with points pt 7 lc '#CC79A7' title 'sqrt08' noenhanced, $d19 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d20 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
unset multiplot
