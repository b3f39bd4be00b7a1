set encoding utf8
$d0 << EOD
1 1.9493 1.92542 1.97318
8 1.96225 1.94114 1.98336
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'slots_nano' . '.' . type
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
set title 'test loss' noenhanced
set xlabel 'ranks.slots' noenhanced
set ylabel 'test_loss' noenhanced
set key bmargin center maxrows 1 samplen 2 width 1
set bmargin 6
set logscale x
set xtics ('1' 1, '8' 8)

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#0072B2' title 'lpmm-nano' noenhanced
unset multiplot
set output
