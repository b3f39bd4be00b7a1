set encoding utf8
$d0 << EOD
5 2.5561
10 2.42692
15 2.15627
20 2.11048
25 2.11472
30 2.03217
35 1.94452
40 1.94367
45 1.87374
50 1.91532
55 1.84719
60 1.85249
65 1.84538
70 1.79053
75 1.76749
80 1.77558
85 1.76605
90 1.7196
95 1.66123
100 1.69266
105 1.67674
110 1.68355
115 1.62495
120 1.62856
125 1.56323
130 1.59968
135 1.5624
140 1.57026
145 1.62991
150 1.61834
EOD
$d1 << EOD
5 2.55444
10 2.42091
15 2.13789
20 2.0974
25 2.04266
30 2.00664
35 1.97711
40 1.95997
45 1.8645
50 1.90497
55 1.83311
60 1.85717
65 1.83282
70 1.77022
75 1.75684
80 1.7228
85 1.73266
90 1.7119
95 1.61876
100 1.6777
105 1.66244
110 1.6661
115 1.6409
120 1.5886
125 1.52942
130 1.59139
135 1.55245
140 1.53367
145 1.62289
150 1.59002
EOD
$d2 << EOD
5 2.58513
10 2.48173
15 2.28228
20 2.19234
25 2.16792
30 2.06828
35 2.02232
40 1.99938
45 1.9274
50 1.94683
55 1.84496
60 1.86252
65 1.88779
70 1.86766
75 1.87994
80 1.83695
85 1.83556
90 1.82428
95 1.77076
100 1.81012
105 1.79429
110 1.75614
115 1.755
120 1.72039
125 1.69804
130 1.73994
135 1.72645
140 1.69896
145 1.76392
150 1.76775
EOD
$d3 << EOD
150 1.54692
EOD
$d4 << EOD
150 1.52613
EOD
$d5 << EOD
150 1.69804
EOD
$d6 << EOD
150 42.49
EOD
$d7 << EOD
150 43.75
EOD
$d8 << EOD
150 35.76
EOD
$d9 << EOD
25 0
50 0
75 0
100 0
125 0
150 0
EOD
$d10 << EOD
25 85.9409
50 90.9498
75 92.6564
100 95.5575
125 98.4352
150 99.53
EOD
$d11 << EOD
25 92.6361
50 98.5626
75 98.4751
100 99.3831
125 99.4861
150 99.5509
EOD
$d12 << EOD
25 0
50 0
75 0
100 0
125 0
150 0
EOD
$d13 << EOD
25 0.029104
50 0.0713698
75 0.0205767
100 0.068033
125 0.0392997
150 0.0270649
EOD
$d14 << EOD
25 0.0155716
50 0.152008
75 0.0396705
100 0.062101
125 0.0641401
150 0.0304017
EOD
$d15 << EOD
25 0
50 0
75 0
100 0
125 0
150 0
EOD
$d16 << EOD
25 0.0352215
50 0.0300309
75 0.0355922
100 0.0274357
125 0.0304018
150 0.0266942
EOD
$d17 << EOD
25 0.0278065
50 0.0519053
75 0.0704432
100 0.0671064
125 0.0604328
150 0.035963
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'convergence' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1100,716 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1100,716 background '#ffffff'
}
set output file
set multiplot
set origin 0,0.9497206703910615
set size 1,0.05027932960893855
set lmargin 0
set rmargin 0
set tmargin 0
set bmargin 0
unset border
unset tics
unset grid
set xrange [0:1]
set yrange [0:1]
set key at screen 0.5,0.9748603351955307 center center Left reverse samplen 2.5 noenhanced horizontal maxrows 1
plot NaN with lines lw 3 lc rgb '#0072B2' title 'fp32', NaN with lines lw 3 lc rgb '#D55E00' title 'lpmm-compact, sr', NaN with lines lw 3 lc rgb '#009E73' title 'lpmm-compact, rn'
unset key
set lmargin 8
set rmargin 2.5
set tmargin 2.2
set bmargin 3.4
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
set origin 0,0.4748603351955307
set size 0.3333333333333333,0.4748603351955307
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'training loss' noenhanced
set xlabel 'step' noenhanced
set ylabel 'cross entropy (nats)' noenhanced
set xrange [0:150]
set xtics 50
plot $d0 using 1:2 with lines lw 2 lc rgb '#0072B2' notitle, $d1 using 1:2 with lines lw 2 lc rgb '#D55E00' notitle, $d2 using 1:2 with lines lw 2 lc rgb '#009E73' notitle
set origin 0.3333333333333333,0.4748603351955307
set size 0.3333333333333333,0.4748603351955307
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test loss' noenhanced
set xlabel 'step' noenhanced
set ylabel 'cross entropy (nats)' noenhanced
set xrange [0:150]
set xtics 50
plot $d3 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#0072B2' notitle, $d4 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#D55E00' notitle, $d5 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#009E73' notitle
set origin 0.6666666666666666,0.4748603351955307
set size 0.3333333333333333,0.4748603351955307
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'test accuracy' noenhanced
set xlabel 'step' noenhanced
set ylabel 'correct (%)' noenhanced
set xrange [0:150]
set xtics 50
plot $d6 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#0072B2' notitle, $d7 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#D55E00' notitle, $d8 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#009E73' notitle
set origin 0,0
set size 0.3333333333333333,0.4748603351955307
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'underflow, parameter' noenhanced
set xlabel 'step' noenhanced
set ylabel 'increments lost (%)' noenhanced
set yrange [0:100]
set xrange [0:150]
set xtics 50
plot $d9 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#0072B2' notitle, $d10 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#D55E00' notitle, $d11 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#009E73' notitle
set origin 0.3333333333333333,0
set size 0.3333333333333333,0.4748603351955307
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'underflow, accumulator' noenhanced
set xlabel 'step' noenhanced
set ylabel 'increments lost (%)' noenhanced
set yrange [0:100]
set xrange [0:150]
set xtics 50
plot $d12 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#0072B2' notitle, $d13 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#D55E00' notitle, $d14 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#009E73' notitle
set origin 0.6666666666666666,0
set size 0.3333333333333333,0.4748603351955307
unset logscale
set autoscale
set format
set xtics auto norotate
set ytics auto
set title 'underflow, momentum' noenhanced
set xlabel 'step' noenhanced
set ylabel 'increments lost (%)' noenhanced
set yrange [0:100]
set xrange [0:150]
set xtics 50
plot $d15 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#0072B2' notitle, $d16 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#D55E00' notitle, $d17 using 1:2 with linespoints pt 7 ps 0.5 lw 2 lc rgb '#009E73' notitle
unset multiplot
set output
