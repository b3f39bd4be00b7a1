set encoding utf8
$d0 << EOD
0.001 1.67301 1.66941 1.67661
0.002 1.61897 1.61347 1.62448
0.004 1.63771 1.61817 1.65725
EOD
$d1 << EOD
0.001 1.66198 1.65214 1.67182
0.002 1.63171 1.6179 1.64552
0.004 1.65152 1.62297 1.68006
EOD
$d2 << EOD
1307 2.01901 2.01013 2.02607
2614 1.83447 1.82653 1.8395
3921 1.71132 1.70728 1.71514
5000 1.67301 1.67204 1.67468
EOD
$d3 << EOD
1307 2.01901
2614 1.83447
3921 1.71132
5000 1.67301
EOD
$d4 << EOD
1307 2.00773 2.00359 2.0141
2614 1.80287 1.79702 1.80819
3921 1.69641 1.69548 1.69823
5000 1.66198 1.65882 1.66643
EOD
$d5 << EOD
1307 2.00773
2614 1.80287
3921 1.69641
5000 1.66198
EOD
$d6 << EOD
1307 1.95689 1.95276 1.9626
2614 1.77528 1.76968 1.78263
3921 1.65864 1.651 1.66383
5000 1.61897 1.6167 1.62113
EOD
$d7 << EOD
1307 1.95689
2614 1.77528
3921 1.65864
5000 1.61897
EOD
$d8 << EOD
1307 1.93886 1.93211 1.94349
2614 1.76915 1.76027 1.78066
3921 1.66634 1.6641 1.66812
5000 1.63171 1.62651 1.63757
EOD
$d9 << EOD
1307 1.93886
2614 1.76915
3921 1.66634
5000 1.63171
EOD
$d10 << EOD
1307 1.94252 1.93052 1.95306
2614 1.784 1.77619 1.79755
3921 1.67627 1.66777 1.68513
5000 1.63771 1.63005 1.64576
EOD
$d11 << EOD
1307 1.94252
2614 1.784
3921 1.67627
5000 1.63771
EOD
$d12 << EOD
1307 1.94442 1.93544 1.95104
2614 1.79355 1.77935 1.81471
3921 1.68895 1.682 1.69318
5000 1.65152 1.63934 1.66217
EOD
$d13 << EOD
1307 1.94442
2614 1.79355
3921 1.68895
5000 1.65152
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'characters_long' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1120,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1120,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set logscale x

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int6' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'step' noenhanced
set ylabel 'test/loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set yrange [1.55:2.2]

plot $d2 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc '#0072B2' notitle, $d3 using 1:2 with lines lw 2 lc '#0072B2' title 'fp32, 0.001' noenhanced, $d4 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc '#D55E00' notitle, $d5 using 1:2 with lines lw 2 lc '#D55E00' title 'int6, 0.001' noenhanced, $d6 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc '#009E73' notitle, $d7 using 1:2 with lines lw 2 lc '#009E73' title 'fp32, 0.002' noenhanced, $d8 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc '#CC79A7' notitle, $d9 using 1:2 with lines lw 2 lc '#CC79A7' title 'int6, 0.002' noenhanced, $d10 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc '#E69F00' notitle, $d11 using 1:2 with lines lw 2 lc '#E69F00' title 'fp32, 0.004' noenhanced, $d12 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc '#56B4E9' notitle, $d13 using 1:2 with lines lw 2 lc '#56B4E9' title 'int6, 0.004' noenhanced
unset multiplot
set output
