set encoding utf8
$d0 << EOD
0.1 0.00819894
0.03 0.00819894
0.01 0.00819894
0.003 0.00819894
0.001 0.00819894
EOD
$d1 << EOD
0.1 0.00827879
0.03 0.008089
0.01 0.00794944
0.003 0.008342
0.001 0.00818999
EOD
$d2 << EOD
0.1 0.00147223
0.03 0.00147085
0.01 0.00147085
0.003 0.00147085
0.001 0.00147085
EOD
$d3 << EOD
0.1 0.00146917
0.03 0.00147322
0.01 0.00145804
0.003 0.00147543
0.001 0.0014685
EOD
$d4 << EOD
0.1 0.000588548
0.03 0.000343228
0.01 0.000341716
0.003 0.000341716
0.001 0.000341716
EOD
$d5 << EOD
0.1 0.000589709
0.03 0.000339016
0.01 0.000343154
0.003 0.000344005
0.001 0.000338049
EOD
$d6 << EOD
0.1 0.000530149
0.03 0.000164608
0.01 8.66172e-05
0.003 8.37455e-05
0.001 8.37455e-05
EOD
$d7 << EOD
0.1 0.000531909
0.03 0.000163661
0.01 8.67451e-05
0.003 8.39386e-05
0.001 8.31325e-05
EOD
$d8 << EOD
0.1 0.000526555
0.03 0.000153054
0.01 5.25387e-05
0.003 2.26139e-05
0.001 2.0871e-05
EOD
$d9 << EOD
0.1 0.000528777
0.03 0.00015313
0.01 5.09482e-05
0.003 2.26003e-05
0.001 2.06224e-05
EOD
$d10 << EOD
0.1 0.026305
0.03 0.0830281
0.01 0.246179
0.003 0.817568
0.001 2.45021
EOD
$d11 << EOD
0.1 0.0018616
0.03 0.00440491
0.01 0.0125994
0.003 0.0417009
0.001 0.124937
EOD
$d12 << EOD
0.1 0.00186631
0.03 0.00444144
0.01 0.0126602
EOD
$d13 << EOD
0.1 0.000606046
0.03 0.000407862
0.01 0.000800715
0.003 0.00248869
0.001 0.00742406
EOD
$d14 << EOD
0.1 0.000608297
0.03 0.000406883
0.01 0.000818806
0.003 0.00252724
0.001 0.00743309
EOD
$d15 << EOD
0.1 0.000531241
0.03 0.000168097
0.01 9.71031e-05
0.003 0.000168899
0.001 0.000464482
EOD
$d16 << EOD
0.1 0.0005315
0.03 0.000168022
0.01 9.60278e-05
0.003 0.000166469
0.001 0.000466497
EOD
$d17 << EOD
0.1 0.000526623
0.03 0.00015327
0.01 5.31717e-05
0.003 2.47066e-05
0.001 3.38947e-05
EOD
$d18 << EOD
0.1 0.000528694
0.03 0.000153039
0.01 5.16754e-05
0.003 2.44008e-05
0.001 3.44037e-05
EOD
$d19 << EOD
0.1 0.00832912
0.03 0.017264
0.01 0.0251813
0.003 0.0378288
0.001 0.0591668
EOD
$d20 << EOD
0.1 0.00505951
0.03 0.00544135
0.01 0.00673397
0.003 0.00901487
0.001 0.0119269
EOD
$d21 << EOD
0.1 0.000891072
0.03 0.0011449
0.01 0.00189908
0.003 0.00370839
0.001 0.00609911
EOD
$d22 << EOD
0.1 0.000873694
0.03 0.000982983
0.01 0.00147976
0.003 0.00257136
0.001 0.00402106
EOD
$d23 << EOD
0.1 0.000547661
0.03 0.000217859
0.01 0.000223609
0.003 0.000471294
0.001 0.00106142
EOD
$d24 << EOD
0.1 0.000549322
0.03 0.000218288
0.01 0.000244952
0.003 0.00059213
0.001 0.00138217
EOD
$d25 << EOD
0.1 0.000527631
0.03 0.000156296
0.01 6.19557e-05
0.003 4.7895e-05
0.001 4.95301e-05
EOD
$d26 << EOD
0.1 0.000529825
0.03 0.000156603
0.01 6.10696e-05
0.003 4.77051e-05
0.001 4.73497e-05
EOD
$d27 << EOD
0.1 0.000526398
0.03 0.000152534
0.01 5.09778e-05
0.003 1.74155e-05
0.001 1.17572e-05
EOD
$d28 << EOD
0.1 0.000528709
0.03 0.000152639
0.01 4.97521e-05
0.003 1.74208e-05
0.001 1.14942e-05
EOD
$d29 << EOD
0.1 0.00652776
0.03 0.00645442
0.01 0.00646228
0.003 0.00649994
0.001 0.00648282
EOD
$d30 << EOD
0.1 0.00711585
0.03 0.00693426
0.01 0.0070559
0.003 0.00695354
0.001 0.00695183
EOD
$d31 << EOD
0.1 0.00112222
0.03 0.00109841
0.01 0.00109656
0.003 0.00109671
0.001 0.00109848
EOD
$d32 << EOD
0.1 0.00113449
0.03 0.00111888
0.01 0.00111
0.003 0.00110932
0.001 0.00111138
EOD
$d33 << EOD
0.1 0.000562903
0.03 0.000258315
0.01 0.000246617
0.003 0.000246587
0.001 0.000246525
EOD
$d34 << EOD
0.1 0.000566935
0.03 0.000256017
0.01 0.000247866
0.003 0.000245108
0.001 0.00024374
EOD
$d35 << EOD
0.1 0.000528569
0.03 0.000158851
0.01 6.90235e-05
0.003 5.96221e-05
0.001 5.96221e-05
EOD
$d36 << EOD
0.1 0.000531471
0.03 0.000158498
0.01 6.76686e-05
0.003 5.89911e-05
0.001 5.87099e-05
EOD
$d37 << EOD
0.1 0.000526457
0.03 0.000152695
0.01 5.14247e-05
0.003 1.88567e-05
0.001 1.47915e-05
EOD
$d38 << EOD
0.1 0.000528628
0.03 0.000152759
0.01 4.99325e-05
0.003 1.87432e-05
0.001 1.47075e-05
EOD
$d39 << EOD
0.1 0.0108236
0.03 0.0107946
0.01 0.0110704
0.003 0.011007
0.001 0.0110378
EOD
$d40 << EOD
0.1 0.0108075
0.03 0.0104938
0.01 0.0114438
0.003 0.0115138
0.001 0.0113402
EOD
$d41 << EOD
0.1 0.0020295
0.03 0.00202751
0.01 0.00202751
0.003 0.00202751
0.001 0.00202751
EOD
$d42 << EOD
0.1 0.0020105
0.03 0.00203641
0.01 0.00203212
0.003 0.00207352
0.001 0.00201971
EOD
$d43 << EOD
0.1 0.000815421
0.03 0.000479656
0.01 0.000477628
0.003 0.000477628
0.001 0.000477628
EOD
$d44 << EOD
0.1 0.000815816
0.03 0.000485544
0.01 0.00047657
0.003 0.000473587
0.001 0.000465868
EOD
$d45 << EOD
0.1 0.000734511
0.03 0.000230195
0.01 0.000121468
0.003 0.000117473
0.001 0.000117473
EOD
$d46 << EOD
0.1 0.000730884
0.03 0.000226838
0.01 0.000119403
0.003 0.000116614
0.001 0.000118284
EOD
$d47 << EOD
0.1 0.000729531
0.03 0.000214038
0.01 7.36805e-05
0.003 3.17456e-05
0.001 2.93028e-05
EOD
$d48 << EOD
0.1 0.000724427
0.03 0.000211249
0.01 7.35003e-05
0.003 3.13691e-05
0.001 2.93271e-05
EOD
$d49 << EOD
0.1 0.929346
0.03 0.978804
0.01 0.992935
0.003 0.99788
0.001 0.999293
EOD
$d50 << EOD
0.1 0.92927
0.03 0.978509
0.01 0.992861
0.003 0.997849
0.001 0.999281
EOD
$d51 << EOD
0.1 0.751851
0.03 0.925527
0.01 0.975176
0.003 0.992553
0.001 0.997518
EOD
$d52 << EOD
0.1 0.751909
0.03 0.92546
0.01 0.975147
0.003 0.99263
0.001 0.997499
EOD
$d53 << EOD
0.1 0.30947
0.03 0.711607
0.01 0.903667
0.003 0.9711
0.001 0.990367
EOD
$d54 << EOD
0.1 0.308676
0.03 0.710636
0.01 0.903393
0.003 0.970923
0.001 0.990377
EOD
$d55 << EOD
0.1 0.0809907
0.03 0.265257
0.01 0.623211
0.003 0.885018
0.001 0.961673
EOD
$d56 << EOD
0.1 0.0802165
0.03 0.265002
0.01 0.621916
0.003 0.885179
0.001 0.961601
EOD
$d57 << EOD
0.1 0.0203167
0.03 0.0688004
0.01 0.203364
0.003 0.560518
0.001 0.847169
EOD
$d58 << EOD
0.1 0.0202394
0.03 0.0688108
0.01 0.202825
0.003 0.560532
0.001 0.847263
EOD
$d59 << EOD
0.01 0.00787404
0.003 0.00534244
0.001 0.00456164
0.0003 0.00428191
0.0001 0.00420136
EOD
$d60 << EOD
0.01 0.00767004
0.003 0.00539147
0.001 0.0048354
0.0003 0.00440007
0.0001 0.00439912
EOD
$d61 << EOD
0.01 0.00121603
0.003 0.000671098
0.001 0.00050682
0.0003 0.000448371
0.0001 0.000431579
EOD
$d62 << EOD
0.01 0.00121442
0.003 0.000667563
0.001 0.000486104
0.0003 0.000444639
0.0001 0.000428377
EOD
$d63 << EOD
0.01 0.000602742
0.003 0.000244344
0.001 0.000137287
0.0003 9.93027e-05
0.0001 8.84005e-05
EOD
$d64 << EOD
0.01 0.000603545
0.003 0.000242376
0.001 0.000135001
0.0003 9.80005e-05
0.0001 8.86852e-05
EOD
$d65 << EOD
0.01 0.00050843
0.003 0.000164655
0.001 6.83229e-05
0.0003 3.41847e-05
0.0001 2.43886e-05
EOD
$d66 << EOD
0.01 0.000507862
0.003 0.000166131
0.001 6.65671e-05
0.0003 3.43863e-05
0.0001 2.48806e-05
EOD
$d67 << EOD
0.01 0.000501764
0.003 0.000151094
0.001 5.24723e-05
0.0003 1.91213e-05
0.0001 9.5816e-06
EOD
$d68 << EOD
0.01 0.00050152
0.003 0.000152945
0.001 5.11987e-05
0.0003 1.91766e-05
0.0001 9.3868e-06
EOD
$d69 << EOD
0.01 0.0483178
0.003 0.105066
0.001 0.268219
0.0003 0.839609
0.0001 2.47225
EOD
$d70 << EOD
0.01 0.00295606
0.003 0.00551421
0.001 0.0137223
0.0003 0.0428247
0.0001 0.126061
EOD
$d71 << EOD
0.01 0.00296394
0.003 0.00559138
0.001 0.0136908
EOD
$d72 << EOD
0.01 0.000648614
0.003 0.000470009
0.001 0.000864221
0.0003 0.0025528
0.0001 0.00748763
EOD
$d73 << EOD
0.01 0.000648997
0.003 0.000470516
0.001 0.000898312
0.0003 0.00257577
0.0001 0.00758997
EOD
$d74 << EOD
0.01 0.000510451
0.003 0.000170109
0.001 0.000100606
0.0003 0.000171932
0.0001 0.000467347
EOD
$d75 << EOD
0.01 0.000509732
0.003 0.000171986
0.001 9.9874e-05
0.0003 0.000173537
0.0001 0.000471914
EOD
$d76 << EOD
0.01 0.000501888
0.003 0.000151367
0.001 5.3197e-05
0.0003 2.4845e-05
0.0001 3.38903e-05
EOD
$d77 << EOD
0.01 0.000501509
0.003 0.00015276
0.001 5.17155e-05
0.0003 2.44633e-05
0.0001 3.34728e-05
EOD
$d78 << EOD
0.01 0.0128526
0.003 0.0104077
0.001 0.00978689
0.0003 0.0105941
0.0001 0.0112281
EOD
$d79 << EOD
0.01 0.00443111
0.003 0.0031989
0.001 0.00331173
0.0003 0.00329339
0.0001 0.00353857
EOD
$d80 << EOD
0.01 0.0010452
0.003 0.000788578
0.001 0.000847966
0.0003 0.0010106
0.0001 0.00127389
EOD
$d81 << EOD
0.01 0.000953036
0.003 0.000648168
0.001 0.00069745
0.0003 0.000777703
0.0001 0.000919981
EOD
$d82 << EOD
0.01 0.000540698
0.003 0.000215047
0.001 0.000163716
0.0003 0.00022319
0.0001 0.000345513
EOD
$d83 << EOD
0.01 0.00054151
0.003 0.000223254
0.001 0.000192985
0.0003 0.000282415
0.0001 0.000462275
EOD
$d84 << EOD
0.01 0.000503755
0.003 0.000155198
0.001 5.92168e-05
0.0003 2.59475e-05
0.0001 1.65605e-05
EOD
$d85 << EOD
0.01 0.000503937
0.003 0.000156699
0.001 5.77483e-05
0.0003 2.62785e-05
0.0001 1.6646e-05
EOD
$d86 << EOD
0.01 0.000501471
0.003 0.000150435
0.001 5.08043e-05
0.0003 1.69611e-05
0.0001 7.47968e-06
EOD
$d87 << EOD
0.01 0.000501434
0.003 0.000152599
0.001 4.9414e-05
0.0003 1.68002e-05
0.0001 7.31048e-06
EOD
$d88 << EOD
0.01 0.0042137
0.003 0.00332392
0.001 0.00325463
0.0003 0.00331173
0.0001 0.00336713
EOD
$d89 << EOD
0.01 0.00525567
0.003 0.00439327
0.001 0.00413976
0.0003 0.00404972
0.0001 0.00416299
EOD
$d90 << EOD
0.01 0.000809039
0.003 0.000427986
0.001 0.000335566
0.0003 0.000331922
0.0001 0.000333076
EOD
$d91 << EOD
0.01 0.000836347
0.003 0.000465344
0.001 0.000366633
0.0003 0.000354998
0.0001 0.000353658
EOD
$d92 << EOD
0.01 0.000537096
0.003 0.000185637
0.001 9.05941e-05
0.0003 6.38807e-05
0.0001 6.19123e-05
EOD
$d93 << EOD
0.01 0.000538729
0.003 0.000189761
0.001 8.89958e-05
0.0003 6.42498e-05
0.0001 6.36366e-05
EOD
$d94 << EOD
0.01 0.000505309
0.003 0.00015495
0.001 5.616e-05
0.0003 2.28932e-05
0.0001 1.52377e-05
EOD
$d95 << EOD
0.01 0.00050576
0.003 0.000156864
0.001 5.45549e-05
0.0003 2.26638e-05
0.0001 1.51116e-05
EOD
$d96 << EOD
0.01 0.000501569
0.003 0.000150634
0.001 5.09222e-05
0.0003 1.62892e-05
0.0001 6.65738e-06
EOD
$d97 << EOD
0.01 0.000501226
0.003 0.000152544
0.001 4.93498e-05
0.0003 1.60296e-05
0.0001 6.46616e-06
EOD
$d98 << EOD
0.01 0.0094066
0.003 0.00629718
0.001 0.00526594
0.0003 0.00488709
0.0001 0.00477704
EOD
$d99 << EOD
0.01 0.00886564
0.003 0.00620558
0.001 0.00546071
0.0003 0.00508558
0.0001 0.00512733
EOD
$d100 << EOD
0.01 0.00156619
0.003 0.000873133
0.001 0.000662351
0.0003 0.000587046
0.0001 0.000565379
EOD
$d101 << EOD
0.01 0.00155528
0.003 0.000850228
0.001 0.000659416
0.0003 0.000587749
0.0001 0.000544332
EOD
$d102 << EOD
0.01 0.000825861
0.003 0.000333516
0.001 0.000187902
0.0003 0.000136374
0.0001 0.000121596
EOD
$d103 << EOD
0.01 0.000829629
0.003 0.000327853
0.001 0.000187615
0.0003 0.000139384
0.0001 0.000118085
EOD
$d104 << EOD
0.01 0.000712115
0.003 0.00022988
0.001 9.52257e-05
0.0003 4.76737e-05
0.0001 3.40443e-05
EOD
$d105 << EOD
0.01 0.000709623
0.003 0.000227237
0.001 9.50953e-05
0.0003 4.72102e-05
0.0001 3.32251e-05
EOD
$d106 << EOD
0.01 0.000704064
0.003 0.000212063
0.001 7.3601e-05
0.0003 2.68028e-05
0.0001 1.34317e-05
EOD
$d107 << EOD
0.01 0.000702627
0.003 0.000209254
0.001 7.41571e-05
0.0003 2.62326e-05
0.0001 1.37183e-05
EOD
$d108 << EOD
0.01 0.00756934
0.003 0.00489606
0.001 0.00409535
0.0003 0.00381413
0.0001 0.00373387
EOD
$d109 << EOD
0.01 0.00732383
0.003 0.00490096
0.001 0.00428851
0.0003 0.00414426
0.0001 0.00411261
EOD
$d110 << EOD
0.01 0.0009865
0.003 0.000418495
0.001 0.000260492
0.0003 0.000209369
0.0001 0.000195435
EOD
$d111 << EOD
0.01 0.00096151
0.003 0.000422496
0.001 0.0002655
0.0003 0.000214554
0.0001 0.000202076
EOD
$d112 << EOD
0.01 0.000557362
0.003 0.000178181
0.001 6.5611e-05
0.0003 2.70099e-05
0.0001 1.64451e-05
EOD
$d113 << EOD
0.01 0.000558403
0.003 0.000179863
0.001 6.40991e-05
0.0003 2.74522e-05
0.0001 1.68357e-05
EOD
$d114 << EOD
0.01 0.000505163
0.003 0.000153734
0.001 5.20213e-05
0.0003 1.59981e-05
0.0001 5.746e-06
EOD
$d115 << EOD
0.01 0.000504988
0.003 0.000155493
0.001 5.05372e-05
0.0003 1.58409e-05
0.0001 5.64437e-06
EOD
$d116 << EOD
0.01 0.000501559
0.003 0.000150358
0.001 5.02501e-05
0.0003 1.51412e-05
0.0001 5.07094e-06
EOD
$d117 << EOD
0.01 0.000501545
0.003 0.000152116
0.001 4.87411e-05
0.0003 1.50075e-05
0.0001 4.94086e-06
EOD
$d118 << EOD
0.01 0.965601
0.003 0.989378
0.001 0.996429
0.0003 0.998926
0.0001 0.999642
EOD
$d119 << EOD
0.01 0.966425
0.003 0.989319
0.001 0.996212
0.0003 0.998877
0.0001 0.999629
EOD
$d120 << EOD
0.01 0.93067
0.003 0.978767
0.001 0.99288
0.0003 0.997859
0.0001 0.999286
EOD
$d121 << EOD
0.01 0.931205
0.003 0.978622
0.001 0.992916
0.0003 0.997882
0.0001 0.999286
EOD
$d122 << EOD
0.01 0.771939
0.003 0.930383
0.001 0.976677
0.0003 0.992991
0.0001 0.997662
EOD
$d123 << EOD
0.01 0.77088
0.003 0.930419
0.001 0.976475
0.0003 0.992908
0.0001 0.997654
EOD
$d124 << EOD
0.01 0.338894
0.003 0.734648
0.001 0.911045
0.0003 0.973269
0.0001 0.991085
EOD
$d125 << EOD
0.01 0.338051
0.003 0.734934
0.001 0.910739
0.0003 0.973243
0.0001 0.991073
EOD
$d126 << EOD
0.01 0.0903514
0.003 0.288882
0.001 0.652441
0.0003 0.894521
0.0001 0.964823
EOD
$d127 << EOD
0.01 0.0896693
0.003 0.289388
0.001 0.652815
0.0003 0.894579
0.0001 0.964731
EOD
type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'
file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : 'quadratic' . '.' . type
if (type eq 'svg') {
  set terminal svg font 'sans,13' size 1680,2400 dynamic background '#ffffff'
} else {
  set terminal pngcairo font 'sans,11' size 1680,2400 background '#ffffff'
}
set output file
set multiplot layout 5,3
set border 3 lc rgb '#606060' lw 0.8
set xtics nomirror out scale 0.5
set ytics nomirror out scale 0.5
set grid lc rgb '#d9d9d9' lw 0.7 lt 1
set xlabel offset 0,0.4
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d0 using 1:2 with lines lc '#0072B2' notitle, $d1 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d2 using 1:2 with lines lc '#D55E00' notitle, $d3 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d4 using 1:2 with lines lc '#009E73' notitle, $d5 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d6 using 1:2 with lines lc '#CC79A7' notitle, $d7 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d8 using 1:2 with lines lc '#E69F00' notitle, $d9 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, moving step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d10 using 1:2 with lines lc '#0072B2' notitle, $d11 using 1:2 with lines lc '#D55E00' notitle, $d12 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d13 using 1:2 with lines lc '#009E73' notitle, $d14 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d15 using 1:2 with lines lc '#CC79A7' notitle, $d16 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d17 using 1:2 with lines lc '#E69F00' notitle, $d18 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, moving-natural step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d19 using 1:2 with lines lc '#0072B2' notitle, $d20 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d21 using 1:2 with lines lc '#D55E00' notitle, $d22 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d23 using 1:2 with lines lc '#009E73' notitle, $d24 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d25 using 1:2 with lines lc '#CC79A7' notitle, $d26 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d27 using 1:2 with lines lc '#E69F00' notitle, $d28 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky step, qr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d29 using 1:2 with lines lc '#0072B2' notitle, $d30 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d31 using 1:2 with lines lc '#D55E00' notitle, $d32 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d33 using 1:2 with lines lc '#009E73' notitle, $d34 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d35 using 1:2 with lines lc '#CC79A7' notitle, $d36 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d37 using 1:2 with lines lc '#E69F00' notitle, $d38 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGD, sticky-spectrum step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d39 using 1:2 with lines lc '#0072B2' notitle, $d40 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d41 using 1:2 with lines lc '#D55E00' notitle, $d42 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d43 using 1:2 with lines lc '#009E73' notitle, $d44 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d45 using 1:2 with lines lc '#CC79A7' notitle, $d46 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d47 using 1:2 with lines lc '#E69F00' notitle, $d48 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'updates lost, SGD, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'share' noenhanced
set logscale x
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d49 using 1:2 with lines lc '#0072B2' notitle, $d50 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d51 using 1:2 with lines lc '#D55E00' notitle, $d52 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d53 using 1:2 with lines lc '#009E73' notitle, $d54 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d55 using 1:2 with lines lc '#CC79A7' notitle, $d56 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d57 using 1:2 with lines lc '#E69F00' notitle, $d58 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d59 using 1:2 with lines lc '#0072B2' notitle, $d60 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d61 using 1:2 with lines lc '#D55E00' notitle, $d62 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d63 using 1:2 with lines lc '#009E73' notitle, $d64 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d65 using 1:2 with lines lc '#CC79A7' notitle, $d66 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d67 using 1:2 with lines lc '#E69F00' notitle, $d68 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, moving step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d69 using 1:2 with lines lc '#0072B2' notitle, $d70 using 1:2 with lines lc '#D55E00' notitle, $d71 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d72 using 1:2 with lines lc '#009E73' notitle, $d73 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d74 using 1:2 with lines lc '#CC79A7' notitle, $d75 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d76 using 1:2 with lines lc '#E69F00' notitle, $d77 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, moving-natural step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d78 using 1:2 with lines lc '#0072B2' notitle, $d79 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d80 using 1:2 with lines lc '#D55E00' notitle, $d81 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d82 using 1:2 with lines lc '#009E73' notitle, $d83 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d84 using 1:2 with lines lc '#CC79A7' notitle, $d85 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d86 using 1:2 with lines lc '#E69F00' notitle, $d87 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky step, qr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d88 using 1:2 with lines lc '#0072B2' notitle, $d89 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d90 using 1:2 with lines lc '#D55E00' notitle, $d91 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d92 using 1:2 with lines lc '#009E73' notitle, $d93 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d94 using 1:2 with lines lc '#CC79A7' notitle, $d95 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d96 using 1:2 with lines lc '#E69F00' notitle, $d97 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky-spectrum step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d98 using 1:2 with lines lc '#0072B2' notitle, $d99 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d100 using 1:2 with lines lc '#D55E00' notitle, $d101 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d102 using 1:2 with lines lc '#009E73' notitle, $d103 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d104 using 1:2 with lines lc '#CC79A7' notitle, $d105 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d106 using 1:2 with lines lc '#E69F00' notitle, $d107 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'SGDM 0.9, sticky-feedback step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'E (x - optimum)^2' noenhanced
set logscale xy
set yrange [1e-6:1e-1]
set format '10^{%L}'
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d108 using 1:2 with lines lc '#0072B2' notitle, $d109 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d110 using 1:2 with lines lc '#D55E00' notitle, $d111 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d112 using 1:2 with lines lc '#009E73' notitle, $d113 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d114 using 1:2 with lines lc '#CC79A7' notitle, $d115 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d116 using 1:2 with lines lc '#E69F00' notitle, $d117 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset logscale
set autoscale
set format
set xtics auto
set ytics auto
set title 'updates lost, SGDM 0.9, sticky step, sr' noenhanced
set xlabel 'learning rate' noenhanced
set ylabel 'share' noenhanced
set logscale x
set key bmargin center maxrows 2 samplen 2 width -1
set bmargin 6
plot $d118 using 1:2 with lines lc '#0072B2' notitle, $d119 using 1:2 with points pt 7 lc '#0072B2' title 'int4' noenhanced, $d120 using 1:2 with lines lc '#D55E00' notitle, $d121 using 1:2 with points pt 7 lc '#D55E00' title 'int6' noenhanced, $d122 using 1:2 with lines lc '#009E73' notitle, $d123 using 1:2 with points pt 7 lc '#009E73' title 'int8' noenhanced, $d124 using 1:2 with lines lc '#CC79A7' notitle, $d125 using 1:2 with points pt 7 lc '#CC79A7' title 'int10' noenhanced, $d126 using 1:2 with lines lc '#E69F00' notitle, $d127 using 1:2 with points pt 7 lc '#E69F00' title 'int12' noenhanced
unset multiplot
set output
