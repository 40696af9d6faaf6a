# Random reads of one large file. Parameters as documented for Filebench's randomread personality:
# one thread, 8 KiB, a file of 5 GiB.

set $dir=/tmp
set $nthreads=1
set $filesize=5g
set $iosize=8k
set $workingset=0
set $directio=0

define file name=large, path=$dir, size=$filesize, prealloc, reuse, paralloc

define process name=reader, instances=1
{
  thread name=reader, memsize=5m, instances=$nthreads
  {
    flowop read name=random-read, filename=large, iosize=$iosize, random,
      workingset=$workingset, directio=$directio
  }
}

run 60
