set encoding utf8
$d0 << EOD
0.1 1.07059
0.03 1.23276
0.01 1.68173
0.003 3.21161
0.001 7.70352
EOD
$d1 << EOD
0.1 1.03789
0.03 1.08003
0.01 1.25481
0.003 2.13128
0.001 5.03816
EOD
$d2 << EOD
0.1 1.07279
0.03 1.10635
0.01 1.15207
0.003 1.34667
0.001 2.42951
EOD
$d3 << EOD
0.1 1.04835
0.03 1.08262
0.01 1.12066
0.003 1.25808
0.001 1.9385
EOD
$d4 << EOD
0.1 1.06438
0.03 1.07291
0.01 1.10453
0.003 1.27893
0.001 2.30588
EOD
$d5 << EOD
0.1 1.04076
0.03 1.05333
0.01 1.08988
0.003 1.25417
0.001 2.63923
EOD
$d6 << EOD
0.1 1.05503
0.03 1.09088
0.01 1.19327
0.003 1.61849
0.001 3.50791
EOD
$d7 << EOD
0.1 1.10826
0.03 1.16014
0.01 1.14171
0.003 1.27296
0.001 3.26184
EOD
$d8 << EOD
0.1 1.10054
0.03 1.14223
0.01 1.21241
0.003 1.52055
0.001 3.2336
EOD
$d9 << EOD
0.1 1.06282
0.03 1.10095
0.01 1.15009
0.003 1.34758
0.001 2.4135
EOD
$d10 << EOD
0.1 1.0912
0.03 1.10223
0.01 1.14523
0.003 1.39852
0.001 2.99529
EOD
$d11 << EOD
0.1 1.05468
0.03 1.06852
0.01 1.1093
0.003 1.31689
0.001 3.08771
EOD
$d12 << EOD
0.1 1.05811
0.03 1.09563
0.01 1.20164
0.003 1.66328
0.001 3.94526
EOD
$d13 << EOD
0.1 1.17014
0.03 1.23182
0.01 1.22062
0.003 1.4951
0.001 4.81275
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'momentum' . '.' . type
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
set title 'gradients in the momentum' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2 over that of fp32' noenhanced
set logscale xy
set xrange [8e-4:0.12]
set yrange [1:10]
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int7 sr, int5 sr' noenhanced, $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'int7 qr, int5 qr' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'the same with error feedback' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2 over that of fp32' noenhanced
set logscale xy
set xrange [8e-4:0.12]
set yrange [1:10]
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d2 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int7 sr, int5 sr' noenhanced, $d3 using 1:2 with linespoints pt 7 lc '#D55E00' title 'int7 sr, int5 qr' noenhanced, $d4 using 1:2 with linespoints pt 7 lc '#009E73' title 'int7 qr, int5 sr' noenhanced, $d5 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'int7 qr, int5 qr' noenhanced, $d6 using 1:2 with linespoints pt 7 lc '#E69F00' title 'int6 qr, int6 qr' noenhanced, $d7 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'int8 qr, soft4 qr' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'the same with two microbatches' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2 over that of fp32' noenhanced
set logscale xy
set xrange [8e-4:0.12]
set yrange [1:10]
set key bmargin center maxrows 3 samplen 2 width 1
set bmargin 7
plot $d8 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int7 sr, int5 sr' noenhanced, $d9 using 1:2 with linespoints pt 7 lc '#D55E00' title 'int7 sr, int5 qr' noenhanced, $d10 using 1:2 with linespoints pt 7 lc '#009E73' title 'int7 qr, int5 sr' noenhanced, $d11 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'int7 qr, int5 qr' noenhanced, $d12 using 1:2 with linespoints pt 7 lc '#E69F00' title 'int6 qr, int6 qr' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#56B4E9' title 'int8 qr, soft4 qr' noenhanced
unset multiplot
set output
