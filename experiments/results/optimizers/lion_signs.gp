set encoding utf8
$d0 << EOD
3 0.373918
4 0.264374
5 0.101801
6 0.0490364
7 0.0250985
8 0.0118559
9 0.00600663
10 0.00299352
11 0.00146304
12 0.000706846
13 0.000342897
14 0.000165342
15 8.18731e-05
16 4.01387e-05
EOD
$d1 << EOD
4 0.209285
5 0.107092
6 0.0543402
8 0.0140681
EOD
$d2 << EOD
3 0.382052
4 0.281114
5 0.0788784
6 0.0348475
8 0.00950225
EOD
$d3 << EOD
4 0.289622
EOD
$d4 << EOD
8 0.026095
EOD
$d5 << EOD
3 0.336092
4 0.254002
5 0.118338
6 0.0595857
7 0.0300287
8 0.0150435
9 0.00752324
10 0.00379016
11 0.00192887
12 0.000966704
13 0.000481664
14 0.000241446
15 0.000118268
16 6.03922e-05
EOD
$d6 << EOD
4 0.179291
5 0.115886
6 0.0655077
8 0.0183104
EOD
$d7 << EOD
3 0.338346
4 0.223402
5 0.0929189
6 0.0438163
8 0.0106518
EOD
$d8 << EOD
4 0.218016
EOD
$d9 << EOD
8 0.0328643
EOD
$d10 << EOD
3 0.318808
4 0.185232
5 0.0873435
6 0.0437797
7 0.0220109
8 0.0109818
9 0.0055033
10 0.00275337
11 0.00136545
12 0.000688618
13 0.000339338
14 0.000170436
15 8.56783e-05
16 4.15503e-05
EOD
$d11 << EOD
4 0.149424
5 0.0902031
6 0.0499826
8 0.0138227
EOD
$d12 << EOD
3 0.335289
4 0.157316
5 0.0676533
6 0.0325575
8 0.00803891
EOD
$d13 << EOD
4 0.1526
EOD
$d14 << EOD
8 0.0244728
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'lion_signs' . '.' . type
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
set title 'rn' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'share of signs that turn' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-5:1]
plot $d0 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int' noenhanced, $d1 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de' noenhanced, $d2 using 1:2 with linespoints pt 7 lc '#009E73' title 'soft' noenhanced, $d3 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'nf' noenhanced, $d4 using 1:2 with linespoints pt 7 lc '#E69F00' title 'e4m3' noenhanced
set origin 0.3333333333333333,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'sr' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'share of signs that turn' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-5:1]
plot $d5 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int' noenhanced, $d6 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de' noenhanced, $d7 using 1:2 with linespoints pt 7 lc '#009E73' title 'soft' noenhanced, $d8 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'nf' noenhanced, $d9 using 1:2 with linespoints pt 7 lc '#E69F00' title 'e4m3' noenhanced
set origin 0.6666666666666666,0
set size 0.3333333333333333,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'qr' noenhanced
set xlabel 'bits' noenhanced
set ylabel 'share of signs that turn' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set logscale y
set yrange [1e-5:1]
plot $d10 using 1:2 with linespoints pt 7 lc '#0072B2' title 'int' noenhanced, $d11 using 1:2 with linespoints pt 7 lc '#D55E00' title 'de' noenhanced, $d12 using 1:2 with linespoints pt 7 lc '#009E73' title 'soft' noenhanced, $d13 using 1:2 with linespoints pt 7 lc '#CC79A7' title 'nf' noenhanced, $d14 using 1:2 with linespoints pt 7 lc '#E69F00' title 'e4m3' noenhanced
unset multiplot
set output
