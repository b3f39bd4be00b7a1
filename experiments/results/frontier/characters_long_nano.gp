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
set grid
set xlabel offset 0,0.6
set terminal pngcairo font 'sans,11' size 1120,480
set output 'characters_long_nano.png'
set multiplot layout 1,2
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'test_loss' noenhanced
set logscale x

set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'step' noenhanced
set ylabel 'test/loss' noenhanced
set yrange [1.55:2.2]

set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
plot $d1 using 1:2 with lines lw 2 lc '#0072B2' title '0.001' noenhanced, $d2 using 1:2 with lines lw 2 lc '#D55E00' title '0.002' noenhanced, $d3 using 1:2 with lines lw 2 lc '#009E73' title '0.004' noenhanced
unset multiplot
set terminal svg size 1120,480 dynamic background 'white'
set output 'characters_long_nano.svg'
set multiplot layout 1,2
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'optimizer.learning_rate' noenhanced
set ylabel 'test_loss' noenhanced
set logscale x

set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#0072B2' title 'lpmm-nano' noenhanced
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'validation loss' noenhanced
set xlabel 'step' noenhanced
set ylabel 'test/loss' noenhanced
set yrange [1.55:2.2]

set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
plot $d1 using 1:2 with lines lw 2 lc '#0072B2' title '0.001' noenhanced, $d2 using 1:2 with lines lw 2 lc '#D55E00' title '0.002' noenhanced, $d3 using 1:2 with lines lw 2 lc '#009E73' title '0.004' noenhanced
unset multiplot
