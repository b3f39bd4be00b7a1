set encoding utf8
$d0 << EOD
0 0 15050653 2.57
1 0 15116189 2.57
2 0 15116189 2.57
3 0 15116703 2.57
0 1 12176865 2.10
1 1 12308194 2.10
2 1 10797018 2.04
3 1 12111073 2.10
0 2 12111073 2.09
1 2 12636900 2.12
2 2 10994139 2.05
3 2 12045537 2.09
0 3 14316644 2.77
1 3 14382951 2.76
2 3 15183268 2.55
3 3 15116961 2.56
0 4 8825807 1.96
1 4 9417171 1.99
2 4 8562894 1.95
3 4 9351378 1.98
0 5 14449516 2.74
1 5 14383465 2.75
2 5 14449258 2.74
3 5 14582645 2.71
0 6 14449515 2.74
1 6 14449773 2.74
2 6 14383465 2.75
3 6 14449002 2.75
0 7 15784149 2.38
1 7 15717583 2.40
2 7 15717327 2.40
3 7 15717326 2.40
0 8 15383990 2.49
1 8 15450554 2.47
2 8 15517119 2.46
3 8 15383476 2.49
0 9 14049357 2.84
1 9 14249050 2.80
2 9 14049614 2.84
3 9 14582902 2.71
0 10 14345453 2.19
1 10 14410989 2.19
2 10 12965349 2.13
3 10 14082540 2.18
0 11 8562894 1.95
1 11 8694223 1.95
2 11 6985926 1.88
3 11 7248583 1.90
0 12 15783891 2.39
1 12 15717840 2.40
2 12 15850713 2.37
3 12 15583940 2.44
0 13 2188972 1.69
1 13 2451886 1.70
2 13 3568819 1.74
3 13 3897269 1.76
EOD
$d1 << EOD
0 0 15116960 -0.002
1 0 15117217 -0.002
2 0 15183782 -0.006
0 1 15049624 0.005
1 1 15983841 -0.057
2 1 15117218 -0.003
0 2 14782852 0.022
1 2 15784149 -0.046
2 2 15116703 -0.001
0 3 15250347 -0.010
1 3 2188972 -0.220
2 3 3305906 -0.209
0 4 14716801 0.025
1 4 15250346 -0.010
2 4 14783366 0.021
0 5 14917010 0.010
1 5 15049881 0.004
2 5 15583683 -0.031
0 6 15183268 -0.005
1 6 14983318 0.007
2 6 14983832 0.006
0 7 14849674 0.018
1 7 14783623 0.020
2 7 14783109 0.022
0 8 15382962 -0.016
1 8 15583941 -0.033
2 8 14983831 0.006
0 9 15783891 -0.045
1 9 15183268 -0.005
2 9 10008534 -0.140
0 10 15050396 0.002
1 10 15984099 -0.058
2 10 15250347 -0.011
0 11 15049625 0.005
1 11 16051434 -0.064
2 11 15917278 -0.054
0 12 14983060 0.009
1 12 15383990 -0.020
2 12 14316386 0.051
0 13 14916752 0.012
1 13 14249051 0.057
2 13 14049357 0.069
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'rules_text' . '.' . type
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
set title 'above fp32' noenhanced
set xlabel 'preset' noenhanced
set ylabel 'optimizer.rule' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set xtics ('lpmm-compact' 0, 'lpmm-min' 1, 'lpmm-nano' 2) noenhanced
set ytics ('sgd' 0, 'adam' 1, 'adamw' 2, 'lion' 3, 'lamb' 4, 'lars' 5, 'lars_clip' 6, 'rmsprop' 7, 'adagrad' 8, 'ademamix' 9, 'adam_mini' 10, 'adamw_factored' 11, 'adafactor' 12, 'muon' 13) noenhanced

plot $d1 using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder lc rgb variable notitle, $d1 using 1:2:4 with labels notitle
unset multiplot
set output
