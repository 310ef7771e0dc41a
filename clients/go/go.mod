module example.org/volley

go 1.19
