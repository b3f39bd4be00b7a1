set encoding utf8
$d0 << EOD
0.3 1.0001
0.6 1.00037
1.2 1.00292
EOD
$d1 << EOD
0.3 1.03316
0.6 1.06384
1.2 1.12021
EOD
$d2 << EOD
0.3 1.0022
0.6 1.00467
1.2 0.974365
EOD
$d3 << EOD
0.3 0.971455
0.6 0.951826
1.2 0.859192
EOD
$d4 << EOD
0.3 1.03027
0.6 1.05559
1.2 1.11766
EOD
$d5 << EOD
0.3 1.02655
0.6 1.05356
1.2 1.11919
EOD
$d6 << EOD
0.3 1.11821
0.6 1.17509
1.2 1.01105
EOD
$d7 << EOD
0.3 1.21457
0.6 1.1201
1.2 0.748907
EOD
$d8 << EOD
0.3 0.99992
0.6 1.00072
1.2 1.0021
EOD
$d9 << EOD
0.3 1.00028
0.6 1.00142
1.2 1.00616
EOD
$d10 << EOD
0.3 1.04981
0.6 1.0853
1.2 1.15272
EOD
$d11 << EOD
0.3 1.00042
0.6 1.00158
1.2 0.96679
EOD
$d12 << EOD
0.3 0.95515
0.6 0.930748
1.2 0.830853
EOD
$d13 << EOD
0.3 1.04464
0.6 1.07547
1.2 1.1466
EOD
$d14 << EOD
0.3 1.04895
0.6 1.08722
1.2 1.1682
EOD
$d15 << EOD
0.3 1.16077
0.6 1.21867
1.2 1.02604
EOD
$d16 << EOD
0.3 1.22343
0.6 1.11611
1.2 0.743629
EOD
$d17 << EOD
0.3 0.995489
0.6 0.997286
1.2 0.993997
EOD
$d18 << EOD
0.3 1.00147
0.6 1.00258
1.2 1.00924
EOD
$d19 << EOD
0.3 1.05993
0.6 1.10597
1.2 1.16512
EOD
$d20 << EOD
0.3 0.99899
0.6 0.997528
1.2 0.948142
EOD
$d21 << EOD
0.3 0.950825
0.6 0.931001
1.2 0.819611
EOD
$d22 << EOD
0.3 1.0543
0.6 1.09688
1.2 1.17001
EOD
$d23 << EOD
0.3 1.10009
0.6 1.21549
1.2 1.30205
EOD
$d24 << EOD
0.3 1.22999
0.6 1.26364
1.2 1.02416
EOD
$d25 << EOD
0.3 1.20467
0.6 1.05441
1.2 0.67334
EOD
$d26 << EOD
0.3 0.749477
0.6 0.710932
1.2 0.704904
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'variance' . '.' . type
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
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'beta2 0.95' noenhanced
set xlabel 'deviation of ln s within a block' noenhanced
set ylabel 'steps, stored over exact variance' noenhanced
set key bmargin center maxrows 5 samplen 1 width -1
set bmargin 9

plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky' noenhanced, $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d2 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block128:ar:sticky' noenhanced, $d3 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:ur:sticky' noenhanced, $d4 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt04:block64:sr:sticky' noenhanced, $d5 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'sqrt04:block128:sr' noenhanced, $d6 using 1:2 with linespoints pt 7 lc '#000000' title 'sqrt03:block128:sr:sticky' noenhanced, $d7 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'sqrt02:block128:sr' noenhanced, $d8 using 1:2 with linespoints pt 4 lc '#0072B2' title 'ude8:block256:rn' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'beta2 0.99' noenhanced
set xlabel 'deviation of ln s within a block' noenhanced
set ylabel 'steps, stored over exact variance' noenhanced
set key bmargin center maxrows 5 samplen 1 width -1
set bmargin 9

plot $d9 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky' noenhanced, $d10 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d11 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block128:ar:sticky' noenhanced, $d12 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:ur:sticky' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt04:block64:sr:sticky' noenhanced, $d14 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'sqrt04:block128:sr' noenhanced, $d15 using 1:2 with linespoints pt 7 lc '#000000' title 'sqrt03:block128:sr:sticky' noenhanced, $d16 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'sqrt02:block128:sr' noenhanced, $d17 using 1:2 with linespoints pt 4 lc '#0072B2' title 'ude8:block256:rn' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'beta2 0.999' noenhanced
set xlabel 'deviation of ln s within a block' noenhanced
set ylabel 'steps, stored over exact variance' noenhanced
set key bmargin center maxrows 5 samplen 1 width -1
set bmargin 9

plot $d18 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky' noenhanced, $d19 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d20 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block128:ar:sticky' noenhanced, $d21 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:ur:sticky' noenhanced, $d22 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt04:block64:sr:sticky' noenhanced, $d23 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'sqrt04:block128:sr' noenhanced, $d24 using 1:2 with linespoints pt 7 lc '#000000' title 'sqrt03:block128:sr:sticky' noenhanced, $d25 using 1:2 with linespoints pt 7 lc '#8C8C00' title 'sqrt02:block128:sr' noenhanced, $d26 using 1:2 with linespoints pt 4 lc '#0072B2' title 'ude8:block256:rn' noenhanced
unset multiplot
set output
