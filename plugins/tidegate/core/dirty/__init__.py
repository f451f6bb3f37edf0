"""When a batch is too dirty; dirty rows become data: redrives."""
