set encoding utf8
$d0 << EOD
0 0 15450298 79.5
1 0 15049881 76.8
2 0 15917278 82.5
3 0 14449515 73.0
0 1 14673902 86.2
1 1 16183536 84.0
2 1 15850970 82.2
3 1 15851226 82.2
0 2 15983841 82.8
1 2 15850456 82.0
2 2 15983842 82.9
3 2 15717326 81.2
0 3 10994139 89.9
1 3 11256796 89.7
2 3 11913952 89.0
3 3 11848159 89.1
0 4 6460099 94.4
1 4 6394306 94.5
2 4 5540030 95.4
3 4 6788805 94.1
0 5 14673903 86.2
1 5 14805231 86.0
2 5 14345453 86.5
3 5 16119286 84.8
0 6 8365773 92.5
1 6 8102860 92.8
2 6 8102860 92.8
3 6 9416914 91.5
0 7 15717840 81.4
1 7 15650505 80.8
2 7 16117227 83.7
3 7 15717584 81.4
0 8 14449516 73.1
1 8 14516080 73.4
2 8 14449773 73.1
3 8 14049357 70.5
0 9 15851226 82.2
1 9 15784405 81.8
2 9 15850455 82.0
3 9 15583426 80.2
0 10 15917020 82.3
1 10 15917277 82.4
2 10 15917020 82.3
3 10 15449783 79.3
0 11 16183792 84.1
1 11 16184050 84.2
2 11 16051177 83.5
3 11 15650762 80.9
0 12 5934528 94.9
1 12 6262978 94.7
2 12 5934528 95.0
3 12 6262978 94.6
0 13 2254764 98.6
1 13 2188972 98.7
2 13 2517422 98.4
3 13 2977456 98.0
EOD
$d1 << EOD
0 0 15850198 2.68
1 0 2188972 -2.98
2 0 14049357 6.50
0 1 16050407 2.22
1 1 15183781 4.03
2 1 15249832 3.97
0 2 13359592 0.783
1 2 10862554 -0.067
2 2 15725300 1.58
0 3 11848159 0.267
1 3 13819626 0.933
2 3 13556713 0.850
0 4 10731226 -0.100
1 4 8168652 -0.967
2 4 11979744 0.317
0 5 11453917 0.133
1 5 10074326 -0.317
2 5 15265266 1.42
0 6 10336983 -0.233
1 6 10271447 -0.250
2 6 14082540 1.03
0 7 12768228 0.583
1 7 4357304 -2.25
2 7 11125468 0.033
0 8 10074326 -0.317
1 8 10862554 -0.067
2 8 15850970 2.57
0 9 12242402 0.400
1 9 11848159 0.267
2 9 16117742 2.00
0 10 10797018 -0.083
1 10 11059931 0.017
2 10 15650762 3.02
0 11 10731226 -0.100
1 11 12834021 0.617
2 11 15583683 3.20
0 12 11913952 0.300
1 12 11059675 0
2 12 12045280 0.333
0 13 10797018 -0.083
1 13 11716831 0.233
2 13 13031142 0.683
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'rules_image' . '.' . type
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
set title 'test accuracy' noenhanced
set xlabel 'preset' noenhanced
set ylabel 'optimizer.rule' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('fp32' 0, 'lpmm-compact' 1, 'lpmm-min' 2, 'lpmm-nano' 3) noenhanced
set ytics ('sgd' 0, 'adam' 1, 'adamw' 2, 'lion' 3, 'lamb' 4, 'lars' 5, 'lars_clip' 6, 'rmsprop' 7, 'adagrad' 8, 'ademamix' 9, 'adam_mini' 10, 'adamw_factored' 11, 'adafactor' 12, 'muon' 13) noenhanced

plot $d0 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d0 using 1:2:4 with labels notitle
set origin 0.5,0
set size 0.5,1
unset logscale
set autoscale
set format
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'points below fp32' noenhanced
set xlabel 'preset' noenhanced
set ylabel 'optimizer.rule' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('lpmm-compact' 0, 'lpmm-min' 1, 'lpmm-nano' 2) noenhanced
set ytics ('sgd' 0, 'adam' 1, 'adamw' 2, 'lion' 3, 'lamb' 4, 'lars' 5, 'lars_clip' 6, 'rmsprop' 7, 'adagrad' 8, 'ademamix' 9, 'adam_mini' 10, 'adamw_factored' 11, 'adafactor' 12, 'muon' 13) noenhanced

plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d1 using 1:2:4 with labels notitle
unset multiplot
set output
