set encoding utf8
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
0.3 1.12106
0.6 1.1794
1.2 1.0079
EOD
$d5 << EOD
0.3 1.21544
0.6 1.11628
1.2 0.745777
EOD
$d6 << EOD
0.3 0.99992
0.6 1.00072
1.2 1.0021
EOD
$d7 << EOD
0.3 1.00049
0.6 1.00128
1.2 1.00691
EOD
$d8 << EOD
0.3 1.04912
0.6 1.08416
1.2 1.14655
EOD
$d9 << EOD
0.3 1.04585
0.6 1.07814
1.2 1.14333
EOD
$d10 << EOD
0.3 1.04798
0.6 1.08966
1.2 1.16488
EOD
$d11 << EOD
0.3 1.16391
0.6 1.22037
1.2 1.01072
EOD
$d12 << EOD
0.3 1.22746
0.6 1.11532
1.2 0.733338
EOD
$d13 << EOD
0.3 0.995489
0.6 0.997286
1.2 0.993997
EOD
$d14 << EOD
0.3 1.00219
0.6 1.00364
1.2 1.00972
EOD
$d15 << EOD
0.3 1.05803
0.6 1.10612
1.2 1.17301
EOD
$d16 << EOD
0.3 1.05592
0.6 1.09623
1.2 1.16939
EOD
$d17 << EOD
0.3 1.11285
0.6 1.21965
1.2 1.33183
EOD
$d18 << EOD
0.3 1.23296
0.6 1.27621
1.2 1.02966
EOD
$d19 << EOD
0.3 1.22048
0.6 1.0641
1.2 0.685417
EOD
$d20 << EOD
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
set multiplot layout 1,3
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
set title 'beta2 0.95' noenhanced
set xlabel 'deviation of ln s within a block' noenhanced
set ylabel 'steps, stored over exact variance' noenhanced

set key bmargin center maxrows 4 samplen 1 width -1
set bmargin 8
plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky' noenhanced, $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d2 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky' noenhanced, $d3 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr' noenhanced, $d4 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt03:block128:sr:sticky' noenhanced, $d5 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'sqrt02:block128:sr' noenhanced, $d6 using 1:2 with linespoints pt 7 lc '#000000' title 'ude8:block256:rn' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'beta2 0.99' noenhanced
set xlabel 'deviation of ln s within a block' noenhanced
set ylabel 'steps, stored over exact variance' noenhanced

set key bmargin center maxrows 4 samplen 1 width -1
set bmargin 8
plot $d7 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky' noenhanced, $d8 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d9 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky' noenhanced, $d10 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr' noenhanced, $d11 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt03:block128:sr:sticky' noenhanced, $d12 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'sqrt02:block128:sr' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#000000' title 'ude8:block256:rn' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'beta2 0.999' noenhanced
set xlabel 'deviation of ln s within a block' noenhanced
set ylabel 'steps, stored over exact variance' noenhanced

set key bmargin center maxrows 4 samplen 1 width -1
set bmargin 8
plot $d14 using 1:2 with linespoints pt 7 lc '#0072B2' title 'sqrt08:block128:sr:sticky' noenhanced, $d15 using 1:2 with linespoints pt 7 lc '#D55E00' title 'sqrt04:block128:sr:sticky' noenhanced, $d16 using 1:2 with linespoints pt 7 lc '#009E73' title 'sqrt04:block64:sr:sticky' noenhanced, $d17 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'sqrt04:block128:sr' noenhanced, $d18 using 1:2 with linespoints pt 7 lc '#E69F00' title 'sqrt03:block128:sr:sticky' noenhanced, $d19 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'sqrt02:block128:sr' noenhanced, $d20 using 1:2 with linespoints pt 7 lc '#000000' title 'ude8:block256:rn' noenhanced
unset multiplot
set output
