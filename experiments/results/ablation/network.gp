$d0 << EOD
4 0.238237
12 0.238237
EOD
$d1 << EOD
4 2.26658
6 1.81883
8 0.466021
10 0.271761
12 0.264166
EOD
$d2 << EOD
4 2.05619
6 1.76371
8 0.596993
10 0.262368
12 0.286632
EOD
$d3 << EOD
4 0.534402
6 0.32711
8 0.243741
10 0.286648
12 0.263071
EOD
$d4 << EOD
4 0.33926
6 0.248669
8 0.236924
10 0.234922
12 0.268253
EOD
$d5 << EOD
4 95.1
12 95.1
EOD
$d6 << EOD
4 17.45
6 31.25
8 88.9
10 93.95
12 94.25
EOD
$d7 << EOD
4 23.65
6 36.75
8 84.45
10 94.5
12 94.25
EOD
$d8 << EOD
4 81.15
6 91.55
8 95.8
10 93.75
12 94.3
EOD
$d9 << EOD
4 93.5
6 94.65
8 95.3
10 95.35
12 94.55
EOD
$d10 << EOD
4 0.457131
6 0.543986
8 0.546192
10 0.654953
12 0.400628
EOD
$d11 << EOD
4 0.938842
6 0.991823
8 0.957844
10 0.744174
12 0.449123
EOD
$d12 << EOD
4 0.454204
6 0.467874
8 0.416427
10 0.592641
12 0.389877
EOD
$d13 << EOD
4 0.976549
6 0.963397
8 0.892898
10 0.689474
12 0.424445
EOD
set grid
set key below
set terminal png size 1680,480
set output 'network.png'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set title 'final training loss'
set xlabel 'parameter bits'
set ylabel ''
set logscale y
plot $d0 using 1:2 with lines lc 'black' title 'fp32', $d1 using 1:2 with linespoints lc '#D55E00' pt 4 title 'rn, moving', $d2 using 1:2 with linespoints lc '#D55E00' pt 7 title 'rn, sticky', $d3 using 1:2 with linespoints lc '#0072B2' pt 4 title 'sr, moving', $d4 using 1:2 with linespoints lc '#0072B2' pt 7 title 'sr, sticky'
unset logscale
set autoscale
set format
set title 'test accuracy %'
set xlabel 'parameter bits'
set ylabel ''

plot $d5 using 1:2 with lines lc 'black' title 'fp32', $d6 using 1:2 with linespoints lc '#D55E00' pt 4 title 'rn, moving', $d7 using 1:2 with linespoints lc '#D55E00' pt 7 title 'rn, sticky', $d8 using 1:2 with linespoints lc '#0072B2' pt 4 title 'sr, moving', $d9 using 1:2 with linespoints lc '#0072B2' pt 7 title 'sr, sticky'
unset logscale
set autoscale
set format
set title 'underflow share of parameters'
set xlabel 'parameter bits'
set ylabel ''

plot $d10 using 1:2 with linespoints lc '#D55E00' pt 4 title 'rn, moving', $d11 using 1:2 with linespoints lc '#D55E00' pt 7 title 'rn, sticky', $d12 using 1:2 with linespoints lc '#0072B2' pt 4 title 'sr, moving', $d13 using 1:2 with linespoints lc '#0072B2' pt 7 title 'sr, sticky'
unset multiplot
set terminal svg size 1680,480 dynamic background 'white'
set output 'network.svg'
set multiplot layout 1,3
unset logscale
set autoscale
set format
set title 'final training loss'
set xlabel 'parameter bits'
set ylabel ''
set logscale y
plot $d0 using 1:2 with lines lc 'black' title 'fp32', $d1 using 1:2 with linespoints lc '#D55E00' pt 4 title 'rn, moving', $d2 using 1:2 with linespoints lc '#D55E00' pt 7 title 'rn, sticky', $d3 using 1:2 with linespoints lc '#0072B2' pt 4 title 'sr, moving', $d4 using 1:2 with linespoints lc '#0072B2' pt 7 title 'sr, sticky'
unset logscale
set autoscale
set format
set title 'test accuracy %'
set xlabel 'parameter bits'
set ylabel ''

plot $d5 using 1:2 with lines lc 'black' title 'fp32', $d6 using 1:2 with linespoints lc '#D55E00' pt 4 title 'rn, moving', $d7 using 1:2 with linespoints lc '#D55E00' pt 7 title 'rn, sticky', $d8 using 1:2 with linespoints lc '#0072B2' pt 4 title 'sr, moving', $d9 using 1:2 with linespoints lc '#0072B2' pt 7 title 'sr, sticky'
unset logscale
set autoscale
set format
set title 'underflow share of parameters'
set xlabel 'parameter bits'
set ylabel ''

plot $d10 using 1:2 with linespoints lc '#D55E00' pt 4 title 'rn, moving', $d11 using 1:2 with linespoints lc '#D55E00' pt 7 title 'rn, sticky', $d12 using 1:2 with linespoints lc '#0072B2' pt 4 title 'sr, moving', $d13 using 1:2 with linespoints lc '#0072B2' pt 7 title 'sr, sticky'
unset multiplot
