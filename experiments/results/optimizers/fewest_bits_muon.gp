set encoding utf8
$d0 << EOD
69.935 1.6332 1.6281 1.63829
EOD
$d1 << EOD
69.935 1.62973
69.935 1.63051
69.935 1.63344
69.935 1.63889
69.935 1.63692
69.935 1.63943
69.935 1.63567
69.935 1.62098
EOD
$d2 << EOD
13.4832 1.70515 1.69762 1.71268
14.4672 1.6768 1.6704 1.6832
15.4513 1.66875 1.66508 1.67242
EOD
$d3 << EOD
15.4513 1.66775
15.4513 1.66374
15.4513 1.67195
15.4513 1.67715
15.4513 1.66375
15.4513 1.66815
15.4513 1.66765
15.4513 1.66989
14.4672 1.68287
14.4672 1.66955
14.4672 1.68003
14.4672 1.66854
14.4672 1.67838
14.4672 1.68499
14.4672 1.68411
14.4672 1.66589
13.4832 1.71501
13.4832 1.6978
13.4832 1.70628
13.4832 1.71322
13.4832 1.71427
13.4832 1.70485
13.4832 1.70024
13.4832 1.68955
EOD
$d4 << EOD
13.4832 0.0719551 0.0660996 0.0778106
14.4672 0.0436003 0.0376974 0.0495033
15.4513 0.0355576 0.029717 0.0413981
EOD
$d5 << EOD
15.4513 0.0380171
15.4513 0.03323
15.4513 0.0385078
15.4513 0.0382677
15.4513 0.0268297
15.4513 0.0287213
15.4513 0.0319738
15.4513 0.048913
14.4672 0.0531397
14.4672 0.0390399
14.4672 0.046593
14.4672 0.0296478
14.4672 0.0414676
14.4672 0.0455597
14.4672 0.0484422
14.4672 0.0449127
13.4832 0.0852713
13.4832 0.06729
13.4832 0.07284
13.4832 0.07433
13.4832 0.077352
13.4832 0.0654212
13.4832 0.0645648
13.4832 0.0685715
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fewest_bits_muon' . '.' . type
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
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'validation loss' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'lpmm-nano' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6

plot $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'lpmm-nano' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
unset multiplot
set output
