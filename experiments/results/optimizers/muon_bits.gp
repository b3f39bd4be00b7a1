set encoding utf8
$d0 << EOD
73.6282 -0.00625757 -0.0513551 0.0388399
EOD
$d1 << EOD
73.7434 -0.0326031 -0.0747916 0.0095854
EOD
$d2 << EOD
71.7761 -0.019478 -0.0593258 0.0203698
EOD
$d3 << EOD
70.7924 -0.00995966 -0.0320812 0.0121619
EOD
$d4 << EOD
70.7924 -0.00816667 -0.028145 0.0118117
EOD
$d5 << EOD
69.8088 0.103142 0.0105916 0.195693
EOD
$d6 << EOD
69.8088 0.018253 -0.0162234 0.0527294
EOD
$d7 << EOD
69.8088 0.0206476 0.000140475 0.0411547
EOD
$d8 << EOD
68.8251 0.147179 0.109953 0.184405
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'muon_bits' . '.' . type
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
set xtics auto norotate
set ytics auto
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9

plot $d0 using 1:2:3:4 with yerrorlines pt 7 lc '#D55E00' title 'int8:block2048:rn' noenhanced, $d1 using 1:2:3:4 with yerrorlines pt 7 lc '#009E73' title 'int8:block128:sr' noenhanced, $d2 using 1:2:3:4 with yerrorlines pt 7 lc '#CC79A7' title 'soft6:block128:sr' noenhanced, $d3 using 1:2:3:4 with yerrorlines pt 7 lc '#E69F00' title 'soft5:block128:sr' noenhanced, $d4 using 1:2:3:4 with yerrorlines pt 7 lc '#56B4E9' title 'soft5:block128:qr' noenhanced, $d5 using 1:2:3:4 with yerrorlines pt 7 lc '#000000' title 'soft4:block128:rn' noenhanced, $d6 using 1:2:3:4 with yerrorlines pt 7 lc '#8C8C00' title 'soft4:block128:sr' noenhanced, $d7 using 1:2:3:4 with yerrorlines pt 4 lc '#0072B2' title 'soft4:block128:qr' noenhanced, $d8 using 1:2:3:4 with yerrorlines pt 4 lc '#D55E00' title 'soft3:block128:qr' noenhanced
unset multiplot
set output
