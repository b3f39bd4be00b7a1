set encoding utf8
$d0 << EOD
-0.12 27.8808 24.9296 30.832
0.88 85.2534 84.6026 85.9041
1.88 56.438 56.0212 56.8549
2.88 85.2221 84.9166 85.5276
EOD
$d1 << EOD
0 27.9117 26.6856 29.1377
1 85.2794 85.0258 85.533
2 56.9194 56.1679 57.6709
3 85.2205 85.0494 85.3916
EOD
$d2 << EOD
0.12 27.9266 26.2017 29.6515
1.12 85.2681 84.6334 85.9028
2.12 56.438 55.8866 56.9895
3.12 85.1424 84.8188 85.466
EOD
$d3 << EOD
-0.06 -0.0308686 -4.40148 4.33974
0.94 -0.0260093 -1.02726 0.975239
1.94 -0.481348 -2.34819 1.38549
2.94 0.00164288 -0.494321 0.497606
EOD
$d4 << EOD
0.06 -0.0457968 -3.81847 3.72688
1.06 -0.0147344 -0.201184 0.171715
2.06 -3.71925e-15 -1.5533 1.5533
3.06 0.0797033 -1.05149 1.2109
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'glue' . '.' . type
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
set title 'score, and what seeds differ by' noenhanced
set xlabel 'task' noenhanced
set ylabel 'score' noenhanced
set key bmargin center maxrows 2 samplen 2 width 1
set bmargin 6
set xtics ('cola' 0, 'mrpc' 1, 'rte' 2, 'stsb' 3) noenhanced
set xrange [-0.5:3.5]

plot $d0 using 1:2:3:4 with yerrorbars pt 7 lc '#0072B2' title 'fp32' noenhanced, $d1 using 1:2:3:4 with yerrorbars pt 7 lc '#D55E00' title 'lpmm-compact' noenhanced, $d2 using 1:2:3:4 with yerrorbars pt 7 lc '#009E73' title 'lpmm-min' noenhanced
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'points below fp32, and 95 % bounds' noenhanced
set xlabel 'task' noenhanced
set ylabel 'score_gap' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('cola' 0, 'mrpc' 1, 'rte' 2, 'stsb' 3) noenhanced
set xrange [-0.5:3.5]

plot $d3 using 1:2:3:4 with yerrorbars pt 7 lc '#D55E00' title 'lpmm-compact' noenhanced, $d4 using 1:2:3:4 with yerrorbars pt 7 lc '#009E73' title 'lpmm-min' noenhanced
unset multiplot
set output
