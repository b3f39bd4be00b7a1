set encoding utf8
$d0 << EOD
73.6282 -0.00625757 -0.0513551 0.0388399
EOD
$d1 << EOD
73.6282 0.120877
73.6282 -0.0522598
73.6282 -0.0350807
73.6282 -0.028062
73.6282 0.00437583
73.6282 -0.0238476
73.6282 -0.0115716
73.6282 -0.0244922
EOD
$d2 << EOD
73.7434 -0.0326031 -0.0747916 0.0095854
EOD
$d3 << EOD
73.7434 0.0165237
73.7434 -0.101143
73.7434 -0.0609325
73.7434 -0.0686024
73.7434 0.0181203
73.7434 -0.0623049
73.7434 0.0387211
73.7434 -0.0412069
EOD
$d4 << EOD
71.7761 -0.019478 -0.0593258 0.0203698
EOD
$d5 << EOD
71.7761 0.0670552
71.7761 -0.0804358
71.7761 -0.0370962
71.7761 -0.0673935
71.7761 0.015113
71.7761 -0.000653648
71.7761 -0.0111867
71.7761 -0.0412265
EOD
$d6 << EOD
70.7924 -0.00995966 -0.0320812 0.0121619
EOD
$d7 << EOD
70.7924 0.0209675
70.7924 -0.035918
70.7924 -0.0333319
70.7924 -0.0413743
70.7924 0.0197211
70.7924 0.0163063
70.7924 -0.0216271
70.7924 -0.00442075
EOD
$d8 << EOD
70.7924 -0.00816667 -0.028145 0.0118117
EOD
$d9 << EOD
70.7924 0.0348265
70.7924 -0.0191191
70.7924 -0.0308913
70.7924 -0.0122153
70.7924 -0.0136065
70.7924 0.0019818
70.7924 0.0124765
70.7924 -0.0387861
EOD
$d10 << EOD
69.8088 0.103142 0.0105916 0.195693
EOD
$d11 << EOD
69.8088 0.0932441
69.8088 -0.0177676
69.8088 0.0788285
69.8088 0.0509146
69.8088 0.160596
69.8088 0.347793
69.8088 0.0484632
69.8088 0.0630651
EOD
$d12 << EOD
69.8088 0.018253 -0.0162234 0.0527294
EOD
$d13 << EOD
69.8088 0.0851996
69.8088 -0.0500944
69.8088 0.0374357
69.8088 0.010444
69.8088 0.0340974
69.8088 0.0445162
69.8088 -0.00423301
69.8088 -0.0113416
EOD
$d14 << EOD
69.8088 0.0206476 0.000140475 0.0411547
EOD
$d15 << EOD
69.8088 0.0439368
69.8088 -0.0181169
69.8088 0.00616917
69.8088 0.0334168
69.8088 0.0442983
69.8088 0.0146841
69.8088 0.0448812
69.8088 -0.00408898
EOD
$d16 << EOD
68.8251 0.147179 0.109953 0.184405
EOD
$d17 << EOD
68.8251 0.1952
68.8251 0.0686292
68.8251 0.129888
68.8251 0.113256
68.8251 0.165607
68.8251 0.20338
68.8251 0.165394
68.8251 0.13608
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
set xtics auto norotate enhanced
set ytics auto enhanced
set title 'above fp32' noenhanced
set xlabel 'bits_per_parameter' noenhanced
set ylabel 'test_loss_gap' noenhanced
set key bmargin center maxrows 5 samplen 2 width 1
set bmargin 9

plot $d0 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#D55E00' title 'int8:block2048:rn' noenhanced, $d1 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle, $d2 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#009E73' title 'int8:block128:sr' noenhanced, $d3 using 1:2 with points pt 6 ps 0.4 lc '#009E73' notitle, $d4 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#CC79A7' title 'soft6:block128:sr' noenhanced, $d5 using 1:2 with points pt 6 ps 0.4 lc '#CC79A7' notitle, $d6 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#E69F00' title 'soft5:block128:sr' noenhanced, $d7 using 1:2 with points pt 6 ps 0.4 lc '#E69F00' notitle, $d8 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#56B4E9' title 'soft5:block128:qr' noenhanced, $d9 using 1:2 with points pt 6 ps 0.4 lc '#56B4E9' notitle, $d10 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#000000' title 'soft4:block128:rn' noenhanced, $d11 using 1:2 with points pt 6 ps 0.4 lc '#000000' notitle, $d12 using 1:2:3:4 with yerrorlines pt 7 dt 1 lc '#8C8C00' title 'soft4:block128:sr' noenhanced, $d13 using 1:2 with points pt 6 ps 0.4 lc '#8C8C00' notitle, $d14 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#0072B2' title 'soft4:block128:qr' noenhanced, $d15 using 1:2 with points pt 6 ps 0.4 lc '#0072B2' notitle, $d16 using 1:2:3:4 with yerrorlines pt 5 dt 2 lc '#D55E00' title 'soft3:block128:qr' noenhanced, $d17 using 1:2 with points pt 6 ps 0.4 lc '#D55E00' notitle
unset multiplot
set output
