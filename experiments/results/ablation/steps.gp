set encoding utf8
$d0 << EOD
0.25 0.00941677
0.5 0.00877721
0.6 0.0070777
0.66 0.00720506
0.75 0.00692243
0.8 0.00641752
0.85 0.00671562
EOD
$d1 << EOD
0.25 0.00974002
0.5 0.00917495
0.6 0.00708619
0.66 0.00715033
0.75 0.0068044
0.8 0.00647479
0.85 0.0067691
EOD
$d2 << EOD
0.25 0.00108173
0.5 0.00104259
0.6 0.000980664
0.66 0.000941051
0.75 0.000874299
0.8 0.000815381
0.85 0.00081064
EOD
$d3 << EOD
0.25 0.00110716
0.5 0.00107719
0.6 0.00100651
0.66 0.000951071
0.75 0.000859777
0.8 0.000858839
0.85 0.000819706
EOD
$d4 << EOD
0.25 0.000326929
0.5 0.000322513
0.6 0.000310723
0.66 0.0003033
0.75 0.000291027
0.8 0.000284753
0.85 0.000279652
EOD
$d5 << EOD
0.25 0.00033199
0.5 0.000329183
0.6 0.000308344
0.66 0.000307572
0.75 0.000292039
0.8 0.000286783
0.85 0.000281467
EOD
$d6 << EOD
0.25 0.959427
0.5 0.959427
0.6 0.848831
0.66 0.848831
0.75 1.16423
0.8 1.16423
0.85 1.33062
EOD
$d7 << EOD
0.25 0.922448
0.5 0.922448
0.6 0.867338
0.66 0.867338
0.75 0.969044
0.8 1.02671
0.85 1.19886
EOD
$d8 << EOD
0.25 0.177706
0.5 0.177706
0.6 0.177706
0.66 0.177706
0.75 0.173298
0.8 0.171437
0.85 0.172665
EOD
$d9 << EOD
0.25 0.179444
0.5 0.179444
0.6 0.178785
0.66 0.177372
0.75 0.174103
0.8 0.172699
0.85 0.174404
EOD
$d10 << EOD
0.25 0.146583
0.5 0.146583
0.6 0.146583
0.66 0.146583
0.75 0.146049
0.8 0.146022
0.85 0.145798
EOD
$d11 << EOD
0.25 0.147069
0.5 0.147069
0.6 0.147069
0.66 0.147069
0.75 0.146115
0.8 0.146014
0.85 0.145832
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'steps' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1120,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1120,480 background '#ffffff'
}
set output file
set multiplot layout 1,2
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set key below
unset logscale
set autoscale
set format
set title 'quadratic'
set xlabel 'slack (room 1.0625 and 1.125)'
set ylabel 'final loss'
set logscale y
plot $d0 using 1:2 with linespoints lc '#0072B2' pt 7 title 'int4, room 1.0625', $d1 using 1:2 with linespoints lc '#0072B2' pt 4 title 'int4, room 1.125', $d2 using 1:2 with linespoints lc '#D55E00' pt 7 title 'int6, room 1.0625', $d3 using 1:2 with linespoints lc '#D55E00' pt 4 title 'int6, room 1.125', $d4 using 1:2 with linespoints lc '#009E73' pt 7 title 'int8, room 1.0625', $d5 using 1:2 with linespoints lc '#009E73' pt 4 title 'int8, room 1.125'
unset logscale
set autoscale
set format
set title 'logistic regression'
set xlabel 'slack (room 1.0625 and 1.125)'
set ylabel 'final loss'
set logscale y
plot $d6 using 1:2 with linespoints lc '#0072B2' pt 7 title 'int4, room 1.0625', $d7 using 1:2 with linespoints lc '#0072B2' pt 4 title 'int4, room 1.125', $d8 using 1:2 with linespoints lc '#D55E00' pt 7 title 'int6, room 1.0625', $d9 using 1:2 with linespoints lc '#D55E00' pt 4 title 'int6, room 1.125', $d10 using 1:2 with linespoints lc '#009E73' pt 7 title 'int8, room 1.0625', $d11 using 1:2 with linespoints lc '#009E73' pt 4 title 'int8, room 1.125'
unset multiplot
set output
