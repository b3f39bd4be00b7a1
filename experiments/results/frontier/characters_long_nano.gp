set encoding utf8
$d0 << EOD
0.001 1.64622 1.64622 1.64622
0.002 1.60488 1.60488 1.60488
0.004 1.63252 1.63252 1.63252
EOD
$d1 << EOD
1307 2.02336
2614 1.81515
3921 1.69177
5000 1.64622
EOD
$d2 << EOD
1307 1.94201
2614 1.75398
3921 1.64703
5000 1.60488
EOD
$d3 << EOD
1307 1.93669
2614 1.7805
3921 1.67419
5000 1.63252
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'characters_long_nano' . '.' . type
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

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'lpmm-nano' noenhanced
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
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set yrange [1.55:2.2]

plot $d1 using 1:2 with lines lw 2 lc '#0072B2' title '0.001' noenhanced, $d2 using 1:2 with lines lw 2 lc '#D55E00' title '0.002' noenhanced, $d3 using 1:2 with lines lw 2 lc '#009E73' title '0.004' noenhanced
unset multiplot
set output
