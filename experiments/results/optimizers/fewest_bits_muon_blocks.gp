set encoding utf8
$d0 << EOD
14.5133 0.0448286 0.0386191 0.0510382
EOD
$d1 << EOD
14.5133 0.0607845
14.5133 0.0449
14.5133 0.0464461
14.5133 0.036786
14.5133 0.0383044
14.5133 0.0450568
14.5133 0.0403297
14.5133 0.0460217
EOD
$d2 << EOD
14.5133 0.0522353 0.0439987 0.060472
EOD
$d3 << EOD
14.5133 0.0685156
14.5133 0.0596558
14.5133 0.043408
14.5133 0.0380786
14.5133 0.056346
14.5133 0.0450528
14.5133 0.0512039
14.5133 0.0556222
EOD
$d4 << EOD
13.5907 0.0680617 0.0619561 0.0741674
EOD
$d5 << EOD
13.5907 0.0831506
13.5907 0.0690879
13.5907 0.063832
13.5907 0.0667132
13.5907 0.0571573
13.5907 0.069743
13.5907 0.0663262
13.5907 0.0684837
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'fewest_bits_muon_blocks' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 560,480 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 560,480 background '#ffffff'
}
set output file
set multiplot
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0
set size 1,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int7:block256:qr:sticky' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int8:block256:qr:sticky' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'int7:block128:qr:sticky' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle
unset multiplot
set output
