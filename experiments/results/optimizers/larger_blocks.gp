set encoding utf8
$d0 << EOD
96 1.74821 1.73805 1.75836
EOD
$d1 << EOD
96 1.76205
96 1.745
96 1.75308
96 1.76594
96 1.74297
96 1.74282
96 1.74637
96 1.72742
EOD
$d2 << EOD
14.4269 1.78636 1.77495 1.79778
EOD
$d3 << EOD
14.4269 1.81461
14.4269 1.78401
14.4269 1.79307
14.4269 1.79097
14.4269 1.78198
14.4269 1.77139
14.4269 1.78147
14.4269 1.7734
EOD
$d4 << EOD
14.4039 1.79376 1.78276 1.80476
EOD
$d5 << EOD
14.4039 1.80626
14.4039 1.79897
14.4039 1.79511
14.4039 1.80082
14.4039 1.79982
14.4039 1.80259
14.4039 1.76996
14.4039 1.77654
EOD
$d6 << EOD
14.4269 0.0381563 0.0307667 0.0455458
EOD
$d7 << EOD
14.4269 0.0525525
14.4269 0.0390094
14.4269 0.0399865
14.4269 0.0250245
14.4269 0.0390141
14.4269 0.0285757
14.4269 0.0351034
14.4269 0.0459841
EOD
$d8 << EOD
14.4039 0.0455531 0.0354445 0.0556617
EOD
$d9 << EOD
14.4039 0.044209
14.4039 0.0539635
14.4039 0.0420326
14.4039 0.0348795
14.4039 0.0568512
14.4039 0.0597688
14.4039 0.0235972
14.4039 0.0491232
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'larger_blocks' . '.' . type
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
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int7:block1024:qr:sticky' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int7:block2048:qr:sticky' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
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

plot $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int7:block1024:qr:sticky' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int7:block2048:qr:sticky' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle
unset multiplot
set output
