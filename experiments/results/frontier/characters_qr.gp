set encoding utf8
$d0 << EOD
21.4175 1.75292
EOD
$d1 << EOD
21.4175 1.75594
EOD
$d2 << EOD
17.4516 1.78929
EOD
$d3 << EOD
17.4516 1.76968
EOD
$d4 << EOD
17.4516 1.76968
21.4175 1.75292
EOD
$d5 << EOD
17.4516 1.76263
21.4175 1.76263
EOD
$d6 << EOD
0.002 1.80975 1.80525 1.81425
0.004 1.76263 1.75373 1.77154
0.008 1.77693 1.75338 1.80048
EOD
$d7 << EOD
0.002 1.78392 1.76987 1.79797
0.004 1.75292 1.72002 1.78581
0.008 1.76548 1.75271 1.77824
EOD
$d8 << EOD
0.002 1.78757 1.77859 1.79656
0.004 1.75594 1.73306 1.77883
0.008 1.76462 1.74913 1.78011
EOD
$d9 << EOD
0.002 1.78929 1.75561 1.82297
0.004 1.7911 1.77436 1.80783
0.008 1.80203 1.78645 1.8176
EOD
$d10 << EOD
0.002 1.78179 1.77788 1.78569
0.004 1.76968 1.7365 1.80285
0.008 1.77587 1.7701 1.78164
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'characters_qr' . '.' . type
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
set title 'validation loss against bits, at the best rate' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2 with points pt 7 lc '#D55E00' title 'int8, sr' noenhanced, $d1 using 1:2 with points pt 7 lc '#009E73' title 'int8, qr' noenhanced, $d2 using 1:2 with points pt 7 lc '#CC79A7' title 'int6, sr' noenhanced, $d3 using 1:2 with points pt 7 lc '#E69F00' title 'int6, qr' noenhanced, $d4 using 1:2 with lines lw 2 lc 'black' title 'front' noenhanced, $d5 using 1:2 with lines lw 2 lc '#808080' title 'fp32' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set yrange [1.74:1.82]

plot $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'fp32' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8, sr' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8, qr' noenhanced, $d9 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'int6, sr' noenhanced, $d10 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'int6, qr' noenhanced
unset multiplot
set output
